"""Reductions of Relay modules for `apass.reduce`.

They remove functions and parameters, and simplify expressions and lets.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Final, TypeAlias

import numpy as np

from apass.errors import ApassError
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var, const
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.relay.op.shape.create import zeros
from apass.relay.type_inference.infer import infer_module
from apass.relay.visitors.expr_functor import ExprMutator
from apass.util.delta_debugging import Shrinking

__all__ = ["shrinkings"]

SMALL: Final = 16
"""Larger constants are replaced by `zeros`, whose text is short."""

Simpler: TypeAlias = Callable[[Expr], Expr | None]
"""Returns a simpler replacement of the same type for an expression, or None."""


def shrinkings(mod: IRModule) -> Iterator[Shrinking[IRModule]]:
    """Iterate over the ways to reduce a module.

    If the module cannot be typed, the only way is to remove functions.
    """
    names = [gvar.name_hint for gvar in mod.get_global_vars()]

    def without_functions(indices: frozenset[int]) -> IRModule:
        return infer_module(mod.without_functions([names[index] for index in indices]))

    yield Shrinking("functions", len(names), without_functions)
    try:
        typed = infer_module(mod)
    except ApassError:
        return
    yield _simplified(typed, "expressions replaced by constants", _constant)
    yield _simplified(typed, "expressions replaced by their first part", lambda expr: next(_parts(expr), None))
    last = "expressions replaced by their last part"
    yield _simplified(typed, last, lambda expr: next(reversed([*_parts(expr)]), None))
    yield _without_parameters(typed)


def _simplified(mod: IRModule, kind: str, simpler: Simpler) -> Shrinking[IRModule]:
    """Return the reduction that replaces expressions by `simpler` ones.

    Within a function, outer expressions have lower indices than the expressions in them.
    """
    candidates: list[tuple[str, Expr, Expr]] = []
    for name, func in _functions(mod):
        pairs = [(name, expr, new) for expr in post_order(func.body) if (new := simpler(expr)) is not None]
        candidates += reversed(pairs)

    def without(indices: frozenset[int]) -> IRModule:
        chosen: dict[str, list[tuple[Expr, Expr]]] = {}
        # Inner expressions first: the replacement of an outer expression may contain them.
        for index in sorted(indices, reverse=True):
            name, expr, new = candidates[index]
            chosen.setdefault(name, []).append((expr, new))
        return infer_module(mod.with_functions({name: _replace(mod[name], pairs) for name, pairs in chosen.items()}))

    return Shrinking(kind, len(candidates), without)


def _replace(func: Function, pairs: Iterable[tuple[Expr, Expr]]) -> Expr:
    mutator = ExprMutator()
    for expr, new in pairs:
        mutator.memo_map[expr] = mutator.visit(new)
    return mutator.visit(func)


def _constant(expr: Expr) -> Expr | None:
    """Return zeros of the same type, or None if the expression is simple or a name."""
    if isinstance(expr, Var | GlobalVar | Op | Function) or _is_simple(expr):
        return None
    ty = _type(expr)
    return None if ty is None else _zeros(ty)


def _type(expr: Expr) -> Type | None:
    """Return the type of an expression, or None if it has none (an operator)."""
    try:
        return expr.checked_type
    except ValueError:
        return None


def _is_simple(expr: Expr) -> bool:
    if isinstance(expr, Tuple):
        return all(_is_simple(field) for field in expr.fields)
    if isinstance(expr, Call):
        return isinstance(expr.op, Op) and expr.op.name == "zeros"
    return isinstance(expr, Constant) and expr.data.size <= SMALL


def _zeros(ty: Type) -> Expr | None:
    if isinstance(ty, TupleType):
        fields = [_zeros(field) for field in ty.fields]
        typed = [field for field in fields if field is not None]
        return Tuple(typed) if len(typed) == len(fields) else None
    if not isinstance(ty, TensorType):
        return None
    shape = [dim for dim in ty.shape if isinstance(dim, int)]
    if len(shape) < len(ty.shape):
        return None
    return zeros(shape, ty.dtype) if prod(shape) > SMALL else const(np.zeros(shape), ty.dtype)


def _parts(expr: Expr) -> Iterator[Expr]:
    """Iterate over the direct parts that can replace an expression.

    A part qualifies if it has the type of the expression and does not use a variable that the expression binds.
    """
    ty = _type(expr)
    return (part for part in _direct_parts(expr) if ty is not None and _type(part) == ty)


def _direct_parts(expr: Expr) -> Sequence[Expr]:
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, If):
        return expr.true_branch, expr.false_branch
    if isinstance(expr, TupleGetItem) and isinstance(expr.tuple_value, Tuple):
        return (expr.tuple_value.fields[expr.index],)
    if isinstance(expr, Let) and expr.var not in post_order(expr.body):
        return (expr.body,)
    return ()


def _without_parameters(mod: IRModule) -> Shrinking[IRModule]:
    """Return the reduction that removes unused parameters of uncalled functions."""
    used = {node for _, func in _functions(mod) for node in post_order(func.body)}
    called = {node.name_hint for node in used if isinstance(node, GlobalVar)}
    candidates = [
        (name, param)
        for name, func in _functions(mod)
        if name not in called
        for param in func.params
        if param not in used
    ]

    def without(indices: frozenset[int]) -> IRModule:
        removed = [candidates[index] for index in indices]
        updates = {
            name: _without(mod[name], {param for owner, param in removed if owner == name}) for name, _ in removed
        }
        return infer_module(mod.with_functions(updates))

    return Shrinking("parameters", len(candidates), without)


def _without(func: Function, removed: set[Var]) -> Function:
    params = [param for param in func.params if param not in removed]
    return Function(params, func.body, func.ret_type, func.type_params, func.attrs, span=func.span)


def _functions(mod: IRModule) -> Iterator[tuple[str, Function]]:
    for gvar in mod.get_global_vars():
        yield gvar.name_hint, mod[gvar]
