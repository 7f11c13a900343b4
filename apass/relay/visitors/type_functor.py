"""`TypeFunctor`, `TypeVisitor` and `TypeMutator`: visitors of types, as in TVM.

A subclass defines a method such as `visit_tensor_type(self, tt)` for each class of types that it handles. TypeVisitor
and TypeMutator have no depth limit.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import ClassVar, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

from apass.relay.ir.adt import Constructor, TypeData
from apass.relay.ir.ty import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeConstraint,
    TypeRelation,
)
from apass.relay.ir.ty import TypeVar as RelayTypeVar
from apass.relay.visitors.expr_functor import check_methods

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor", "Visited"]

R = TypeVar("R")
Part = TypeVar("Part", bound="Type | TypeData")

Visited: TypeAlias = Type | TypeData
"""Types, and definitions of data types."""

_METHODS: Final[Mapping[type[Visited], str]] = {
    RelayTypeVar: "visit_type_var",
    IncompleteType: "visit_incomplete_type",
    TensorType: "visit_tensor_type",
    FuncType: "visit_func_type",
    TupleType: "visit_tuple_type",
    TypeRelation: "visit_type_relation",
    RefType: "visit_ref_type",
    GlobalTypeVar: "visit_global_type_var",
    TypeCall: "visit_type_call",
    TypeData: "visit_type_data",
}


class TypeFunctor(Generic[R]):
    """Base of type visitors: `visit(typ)` calls the method for the class of `typ`.

    A subclass defines a `visit_` method for each class of types that it can encounter. The methods call `self.visit`
    for components, so Python's recursion limit applies. TypeVisitor and TypeMutator have no such limit.

    A subclass with an unknown method name that starts with `visit_` raises TypeError at class creation.
    """

    _methods: ClassVar[Mapping[type[Visited], Callable[..., object]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Check the method names, and build the dispatch table."""
        super().__init_subclass__(**options)
        check_methods(cls, "visit_", _METHODS.values())
        cls._methods = {kind: getattr(cls, name, _unhandled) for kind, name in _METHODS.items()}

    def visit(self, typ: Visited) -> R:
        """Return the result for a type.

        Raises:
            NotImplementedError: if the class does not define the method for `typ`.
            TypeError: if `typ` is not a Relay type.

        """
        return cast("R", self._methods.get(type(typ), _unhandled)(self, typ))


def _unhandled(functor: object, typ: object) -> NoReturn:
    method = next((name for kind, name in _METHODS.items() if isinstance(typ, kind)), None)
    if method is None:
        raise TypeError(f"{type(functor).__name__} cannot visit a {type(typ).__name__}: expected a Relay type")
    raise NotImplementedError(f"{type(functor).__name__} cannot visit a {type(typ).__name__}: define {method}")


class _DeepTypeFunctor(TypeFunctor[R]):
    """A TypeFunctor with an explicit stack.

    If the class does not override the method for a type, its components are visited before the type. A shared component
    is visited once.
    """

    _defaults: ClassVar[Mapping[type[Visited], Callable[..., object]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Store the methods of a direct subclass as the defaults."""
        super().__init_subclass__(**options)
        if _DeepTypeFunctor in cls.__bases__:
            cls._defaults = cls._methods

    def __init__(self) -> None:
        """Create an empty table of results."""
        # Keyed by id, because hashing a type visits all of it. Cleared after the outermost visit, as ids may be reused.
        self._results: dict[int, R] = {}
        self._is_visiting = False

    def visit(self, typ: Visited) -> R:
        """Return the result for a type."""
        if self._is_visiting:
            return self._visit(typ)
        self._is_visiting = True
        try:
            return self._visit(typ)
        finally:
            self._results.clear()
            self._is_visiting = False

    def _visit(self, typ: Visited) -> R:
        results = self._results
        stack = [typ]
        while stack:
            node = stack[-1]
            pending = [part for part in self._visited_first(node) if id(part) not in results]
            if id(node) not in results and pending:
                stack += reversed(pending)
                continue
            stack.pop()
            if id(node) not in results:
                results[id(node)] = super().visit(node)
        return results[id(typ)]

    def _visited_first(self, typ: Visited) -> Iterable[Visited]:
        kind = type(typ)
        is_inherited = kind in self._methods and self._methods[kind] is self._defaults[kind]
        return _parts(typ) if is_inherited else ()


def _parts(typ: Visited) -> Iterable[Visited]:
    """Return the visited components of a type in TVM's order."""
    if isinstance(typ, FuncType):
        return (*typ.arg_types, typ.ret_type, *typ.type_params, *typ.type_constraints)
    if isinstance(typ, TupleType):
        return typ.fields
    if isinstance(typ, TypeRelation):
        return typ.args
    if isinstance(typ, RefType):
        return (typ.value,)
    if isinstance(typ, TypeCall):
        return (typ.func, *typ.args)
    return (typ.header, *typ.type_vars) if isinstance(typ, TypeData) else ()


class TypeVisitor(_DeepTypeFunctor[None]):
    """A visitor of a type and its components, to collect information.

    >>> class Collector(TypeVisitor):
    ...     dtypes = ()
    ...     def visit_tensor_type(self, tt):
    ...         self.dtypes += (tt.dtype,)
    >>> collector = Collector()
    >>> collector.visit(TupleType([TensorType((), "bool"), RefType(TensorType((), "int32"))]))
    >>> collector.dtypes
    ('bool', 'int32')
    """

    def _visit_parts(self, typ: Visited) -> None:
        for part in _parts(typ):
            self.visit(part)

    def visit_type_var(self, tv: RelayTypeVar) -> None:
        """Do nothing, because the type has no components."""

    def visit_incomplete_type(self, it: IncompleteType) -> None:
        """Do nothing, because the type has no components."""

    def visit_tensor_type(self, tt: TensorType) -> None:
        """Do nothing, because the type has no components."""

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> None:
        """Do nothing, because the type has no components."""

    def visit_func_type(self, ft: FuncType) -> None:
        """Visit the parameters, the result, the type parameters and the constraints."""
        self._visit_parts(ft)

    def visit_tuple_type(self, tt: TupleType) -> None:
        """Visit the fields."""
        self._visit_parts(tt)

    def visit_type_relation(self, tr: TypeRelation) -> None:
        """Visit the related types."""
        self._visit_parts(tr)

    def visit_ref_type(self, rt: RefType) -> None:
        """Visit the type of the value in the cell."""
        self._visit_parts(rt)

    def visit_type_call(self, tc: TypeCall) -> None:
        """Visit the data type and its arguments."""
        self._visit_parts(tc)

    def visit_type_data(self, td: TypeData) -> None:
        """Visit the name and the type variables."""
        self._visit_parts(td)


class TypeMutator(_DeepTypeFunctor[Visited]):
    """A visitor that returns a rewritten type and keeps unchanged types.

    >>> class ToDouble(TypeMutator):
    ...     def visit_tensor_type(self, tt):
    ...         return TensorType(tt.shape, "float64")
    >>> str(ToDouble().visit(TupleType([TensorType((2,)), TypeCall(GlobalTypeVar("List"), [TensorType()])])))
    '(Tensor[(2), float64], List[float64])'
    """

    def visit_type_var(self, tv: RelayTypeVar) -> Visited:
        """Return the type variable itself."""
        return tv

    def visit_incomplete_type(self, it: IncompleteType) -> Visited:
        """Return the incomplete type itself."""
        return it

    def visit_tensor_type(self, tt: TensorType) -> Visited:
        """Return the tensor type itself."""
        return tt

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> Visited:
        """Return the global type variable itself."""
        return gtv

    def visit_func_type(self, ft: FuncType) -> Visited:
        """Rewrite the parameters, the result, the type parameters and the constraints."""
        arg_types, ret_type = self._types(ft.arg_types), self._type(ft.ret_type)
        params = [self._as(RelayTypeVar, param) for param in ft.type_params]
        constraints = [self._as(TypeConstraint, constraint) for constraint in ft.type_constraints]
        parts = (*arg_types, ret_type, *params, *constraints)
        return ft if all(map(is_, parts, _parts(ft))) else FuncType(arg_types, ret_type, params, constraints)

    def visit_tuple_type(self, tt: TupleType) -> Visited:
        """Rewrite the fields."""
        fields = self._types(tt.fields)
        return tt if all(map(is_, fields, tt.fields)) else TupleType(fields)

    def visit_type_relation(self, tr: TypeRelation) -> Visited:
        """Rewrite the related types."""
        args = self._types(tr.args)
        return tr if all(map(is_, args, tr.args)) else TypeRelation(tr.func, args, tr.num_inputs, tr.attrs)

    def visit_ref_type(self, rt: RefType) -> Visited:
        """Rewrite the type of the value in the cell."""
        value = self._type(rt.value)
        return rt if value is rt.value else RefType(value)

    def visit_type_call(self, tc: TypeCall) -> Visited:
        """Rewrite the data type and its arguments."""
        func, args = self._type(tc.func), self._types(tc.args)
        return tc if func is tc.func and all(map(is_, args, tc.args)) else TypeCall(func, args)

    def visit_type_data(self, td: TypeData) -> Visited:
        """Rewrite the name and the type variables, but not the constructors."""
        header = self._as(GlobalTypeVar, td.header)
        type_vars = [self._as(RelayTypeVar, var) for var in td.type_vars]
        if header is td.header and all(map(is_, type_vars, td.type_vars)):
            return td
        constructors: Iterable[Constructor] = td.constructors
        return TypeData(header, type_vars, constructors)

    def _types(self, types: Iterable[Type]) -> list[Type]:
        return [self._type(ty) for ty in types]

    def _type(self, ty: Type) -> Type:
        return self._as(Type, ty)

    def _as(self, kind: type[Part], part: Visited) -> Part:
        """Return the result for a component of a type, checked to be of class `kind`."""
        new = self.visit(part)
        if not isinstance(new, kind):
            old_name, new_name = type(part).__name__, type(new).__name__
            raise TypeError(
                f"{type(self).__name__} must rewrite this {old_name} to a {kind.__name__}, got a {new_name}"
            )
        return new
