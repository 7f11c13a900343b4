"""`TypeFunctor`, `TypeVisitor` and `TypeMutator`: how types are walked and rewritten, in TVM's names, to any depth.

A class defines `visit_tensor_type(self, tt)` and the like for the kinds of type that it cares about.
"""

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import ClassVar, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

from apass.relay.adt import Constructor, TypeData
from apass.relay.ty import (
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
from apass.relay.ty import TypeVar as RelayTypeVar
from apass.relay.visitors.expr_functor import check_methods

__all__ = ["TypeFunctor", "TypeMutator", "TypeVisitor", "Visited"]

R = TypeVar("R")
Part = TypeVar("Part", bound="Type | TypeData")

Visited: TypeAlias = Type | TypeData
"""What is visited: types, and the definitions of data types."""

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
    """A function on types by cases: `visit(typ)` calls the method for the kind of `typ`.

    A subclass defines a `visit_` method for each kind that it may meet and calls `self.visit` for what is below; then
    depth is Python's limit. TypeVisitor and TypeMutator have no such limit.

    A method that starts with `visit_` and is none of the known ones is a TypeError when the class is created.
    """

    _methods: ClassVar[Mapping[type[Visited], Callable[..., object]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Check the names of the methods."""
        super().__init_subclass__(**options)
        check_methods(cls, "visit_", _METHODS.values())
        cls._methods = {kind: getattr(cls, name, _unhandled) for kind, name in _METHODS.items()}

    def visit(self, typ: Visited) -> R:
        """Return the result for a type.

        Raises:
            NotImplementedError: if the class has no method for its kind.
            TypeError: if it is no type.

        """
        return cast("R", self._methods.get(type(typ), _unhandled)(self, typ))


def _unhandled(functor: object, typ: object) -> NoReturn:
    wanted = next((name for kind, name in _METHODS.items() if isinstance(typ, kind)), None)
    if wanted is None:
        raise TypeError(f"a {type(typ).__name__} is no Relay type; {type(functor).__name__} cannot visit it")
    raise NotImplementedError(f"{type(functor).__name__} met a {type(typ).__name__} and has no {wanted}; define it")


class _DeepTypeFunctor(TypeFunctor[R]):
    """A TypeFunctor that visits what is below a type before it, on a stack of its own, if the class leaves its method.

    A part that is shared is visited once.
    """

    _defaults: ClassVar[Mapping[type[Visited], Callable[..., object]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Find out which methods are left as they are."""
        super().__init_subclass__(**options)
        if _DeepTypeFunctor in cls.__bases__:
            cls._defaults = cls._methods

    def __init__(self) -> None:
        """Start with nothing visited."""
        # By identity, for the time of the outermost visit: hashing a type goes through all of it.
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
            one = stack[-1]
            below = [part for part in self._below(one) if id(part) not in results]
            if id(one) not in results and below:
                stack += reversed(below)
                continue
            stack.pop()
            if id(one) not in results:
                results[id(one)] = super().visit(one)
        return results[id(typ)]

    def _below(self, typ: Visited) -> Iterable[Visited]:
        kind = type(typ)
        is_left = kind in self._methods and self._methods[kind] is self._defaults[kind]
        return _parts(typ) if is_left else ()


def _parts(typ: Visited) -> Iterable[Visited]:
    """Return what is visited with a type, in TVM's order."""
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
    """Goes over a type and all its parts; for gathering facts.

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
        for one in _parts(typ):
            self.visit(one)

    def visit_type_var(self, tv: RelayTypeVar) -> None:
        """Do nothing: there is nothing below."""

    def visit_incomplete_type(self, it: IncompleteType) -> None:
        """Do nothing: there is nothing below."""

    def visit_tensor_type(self, tt: TensorType) -> None:
        """Do nothing: there is nothing below."""

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> None:
        """Do nothing: there is nothing below."""

    def visit_func_type(self, ft: FuncType) -> None:
        """Visit the parameters, the result, the type parameters and the constraints."""
        self._visit_parts(ft)

    def visit_tuple_type(self, tt: TupleType) -> None:
        """Visit the fields."""
        self._visit_parts(tt)

    def visit_type_relation(self, tr: TypeRelation) -> None:
        """Visit the types that it relates."""
        self._visit_parts(tr)

    def visit_ref_type(self, rt: RefType) -> None:
        """Visit what the cell holds."""
        self._visit_parts(rt)

    def visit_type_call(self, tc: TypeCall) -> None:
        """Visit the data type and its arguments."""
        self._visit_parts(tc)

    def visit_type_data(self, td: TypeData) -> None:
        """Visit the name and the type variables."""
        self._visit_parts(td)


class TypeMutator(_DeepTypeFunctor[Visited]):
    """Makes a new type of an old one; a type in which nothing changed stays the same object.

    >>> class ToDouble(TypeMutator):
    ...     def visit_tensor_type(self, tt):
    ...         return TensorType(tt.shape, "float64")
    >>> str(ToDouble().visit(TupleType([TensorType((2,)), TypeCall(GlobalTypeVar("List"), [TensorType()])])))
    '(Tensor[(2), float64], List[float64])'
    """

    def visit_type_var(self, tv: RelayTypeVar) -> Visited:
        """Return the variable."""
        return tv

    def visit_incomplete_type(self, it: IncompleteType) -> Visited:
        """Return the type."""
        return it

    def visit_tensor_type(self, tt: TensorType) -> Visited:
        """Return the type."""
        return tt

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> Visited:
        """Return the name."""
        return gtv

    def visit_func_type(self, ft: FuncType) -> Visited:
        """Update the parameters, the result, the type parameters and the constraints."""
        arg_types, ret_type = self._types(ft.arg_types), self._type(ft.ret_type)
        params = [self._as(RelayTypeVar, one) for one in ft.type_params]
        constraints = [self._as(TypeConstraint, one) for one in ft.type_constraints]
        made = (*arg_types, ret_type, *params, *constraints)
        return ft if all(map(is_, made, _parts(ft))) else FuncType(arg_types, ret_type, params, constraints)

    def visit_tuple_type(self, tt: TupleType) -> Visited:
        """Update the fields."""
        fields = self._types(tt.fields)
        return tt if all(map(is_, fields, tt.fields)) else TupleType(fields)

    def visit_type_relation(self, tr: TypeRelation) -> Visited:
        """Update the types that it relates."""
        args = self._types(tr.args)
        return tr if all(map(is_, args, tr.args)) else TypeRelation(tr.func, args, tr.num_inputs, tr.attrs)

    def visit_ref_type(self, rt: RefType) -> Visited:
        """Update what the cell holds."""
        value = self._type(rt.value)
        return rt if value is rt.value else RefType(value)

    def visit_type_call(self, tc: TypeCall) -> Visited:
        """Update the data type and its arguments."""
        func, args = self._type(tc.func), self._types(tc.args)
        return tc if func is tc.func and all(map(is_, args, tc.args)) else TypeCall(func, args)

    def visit_type_data(self, td: TypeData) -> Visited:
        """Update the name and the type variables; the constructors are let be."""
        header = self._as(GlobalTypeVar, td.header)
        type_vars = [self._as(RelayTypeVar, one) for one in td.type_vars]
        if header is td.header and all(map(is_, type_vars, td.type_vars)):
            return td
        constructors: Iterable[Constructor] = td.constructors
        return TypeData(header, type_vars, constructors)

    def _types(self, types: Iterable[Type]) -> list[Type]:
        return [self._type(one) for one in types]

    def _type(self, ty: Type) -> Type:
        return self._as(Type, ty)

    def _as(self, kind: type[Part], part: Visited) -> Part:
        """Return the result for a part of a type, which must be of a kind that can stand there."""
        new = self.visit(part)
        if not isinstance(new, kind):
            made, given = type(new).__name__, type(part).__name__
            raise TypeError(f"{type(self).__name__} made a {made} of a {given}; only a {kind.__name__} can stand there")
        return new
