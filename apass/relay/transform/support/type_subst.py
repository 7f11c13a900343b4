"""Substitution of type variables in types and expressions: TVM's `TypeSubst`."""

from collections.abc import Callable, Mapping, MutableMapping
from operator import is_
from types import MappingProxyType

from apass.relay.ir.expr import Call, Expr, Var
from apass.relay.ir.function import Function
from apass.relay.ir.ty import FuncType, Type, TypeVar
from apass.relay.type_inference.unify import parts_of, with_parts
from apass.relay.visitors.expr_functor import ExprMutator
from apass.relay.visitors.recursion import Walk, walk_deep
from apass.relay.visitors.type_functor import TypeMutator, Visited

__all__ = ["has_function_type", "map_function_types", "substitute_type", "substitute_types", "type_contains"]


def substitute_type(ty: Type, chosen: Mapping[TypeVar, Type]) -> Type:
    """Return a type with type variables replaced by the types in `chosen`.

    >>> from apass.relay.ir.ty import TensorType, TupleType
    >>> a, b = TypeVar("A"), TypeVar("B")
    >>> str(substitute_type(TupleType([a, b]), {a: TensorType((2,))}))
    '(Tensor[(2), float32], B)'
    """
    return _TypeSubstitution(chosen).result(ty) if chosen else ty


def substitute_types(
    expr: Expr, chosen: Mapping[TypeVar, Type], binds: Mapping[Var, Expr] = MappingProxyType({})
) -> Expr:
    """Return an expression with type variables replaced in all of its annotations.

    Variables whose annotations change are replaced by new ones. The type parameters of functions stay. `binds` gives
    replacements for free variables, in which no types are replaced.
    """
    return _Substitution(chosen, binds).visit(expr) if chosen or binds else expr


def map_function_types(
    ty: Type, convert: Callable[[FuncType], Type], memo: MutableMapping[int, tuple[Type, Type]] | None = None
) -> Type:
    """Return a type with each function type in it replaced, innermost first.

    `convert` receives a function type whose parts are converted. The type stays the same object if none is replaced.
    `memo` holds results for later calls, so that types with common parts are linear work.
    """
    return walk_deep(_mapped(ty, convert, {} if memo is None else memo))


def _mapped(ty: Type, convert: Callable[[FuncType], Type], memo: MutableMapping[int, tuple[Type, Type]]) -> Walk[Type]:
    old = parts_of(ty)
    if not old:
        return ty
    if id(ty) in memo:
        return memo[id(ty)][1]
    new: list[Type] = []
    for part in old:
        converted = yield _mapped(part, convert, memo)
        new.append(converted)
    result = ty if all(map(is_, new, old)) else with_parts(ty, new)
    result = convert(result) if isinstance(result, FuncType) else result
    # The type is held, so that no other one gets its id.
    memo[id(ty)] = (ty, result)
    return result


def type_contains(ty: Type, fits: Callable[[Type], bool]) -> bool:
    """Return whether a type or a component of it fits."""
    stack, seen = [ty], {id(ty)}
    while stack:
        part = stack.pop()
        if fits(part):
            return True
        below = [child for child in parts_of(part) if id(child) not in seen]
        seen.update(map(id, below))
        stack += below
    return False


def has_function_type(ty: Type) -> bool:
    """Return whether a type is or contains the type of a function."""
    return type_contains(ty, lambda part: isinstance(part, FuncType))


class _TypeSubstitution(TypeMutator):
    def __init__(self, chosen: Mapping[TypeVar, Type]) -> None:
        super().__init__()
        self._chosen = chosen

    def visit_type_var(self, tv: TypeVar) -> Visited:
        return self._chosen.get(tv, tv)

    def result(self, ty: Type) -> Type:
        new = self.visit(ty)
        assert isinstance(new, Type), "a TypeMutator returns a type for a type"
        return new


class _Substitution(ExprMutator, scopes_first=True):
    def __init__(self, chosen: Mapping[TypeVar, Type], binds: Mapping[Var, Expr]) -> None:
        super().__init__()
        self._types = _TypeSubstitution(chosen)
        self.memo_map.update(binds.items())

    def visit_var(self, var: Var) -> Expr:
        if var.type_annotation is None:
            return var
        ty = self._types.result(var.type_annotation)
        return var if ty is var.type_annotation else Var(var.name_hint, ty, span=var.span)

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not call.type_args or not isinstance(new, Call):
            return new
        type_args = [self._types.result(ty) for ty in call.type_args]
        return Call(new.op, new.args, call.attrs, type_args, span=call.span)

    def visit_function(self, fn: Function) -> Expr:
        new = super().visit_function(fn)
        ret_type = None if fn.ret_type is None else self._types.result(fn.ret_type)
        if ret_type is fn.ret_type or not isinstance(new, Function):
            return new
        return Function(new.params, new.body, ret_type, fn.type_params, fn.attrs, span=fn.span)
