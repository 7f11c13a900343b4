"""What of a Relay module can be left out, or put simpler, for `reduce`: functions, expressions, lets, parameters."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Final, TypeAlias

import numpy as np

from apass.errors import ApassError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.make import const
from apass.relay.op.shape.create import zeros
from apass.relay.ty import TensorType, TupleType, Type
from apass.relay.type_inference.infer import infer_module
from apass.util.delta_debugging import Shrinking

__all__ = ["shrinkings"]

SMALL: Final = 16
"""Constants of more elements than this are put as `zeros`, whose text is short."""

Simpler: TypeAlias = Callable[[Expr], Expr | None]
"""Gives something to put for an expression, of the same type; None if it has nothing."""


def shrinkings(mod: IRModule) -> Iterator[Shrinking[IRModule]]:
    """Go over the ways to make a module smaller; only functions can be left out of one that has no types."""
    names = [gvar.name_hint for gvar in mod.get_global_vars()]

    def without_functions(numbers: frozenset[int]) -> IRModule:
        return infer_module(mod.without_functions([names[number] for number in numbers]))

    yield Shrinking("functions", len(names), without_functions)
    try:
        typed = infer_module(mod)
    except ApassError:
        return
    yield _simplified(typed, "expressions for constants", _constant)
    yield _simplified(typed, "expressions for their first part", lambda expr: next(_parts(expr), None))
    yield _simplified(typed, "expressions for their last part", lambda expr: next(iter([*_parts(expr)][::-1]), None))
    yield _without_parameters(typed)


def _simplified(mod: IRModule, what: str, simpler: Simpler) -> Shrinking[IRModule]:
    """Return the way of putting something simpler for expressions; outer ones have the lower numbers."""
    found: list[tuple[str, Expr, Expr]] = []
    for name, func in _functions(mod):
        pairs = [(name, expr, new) for expr in post_order(func.body) if (new := simpler(expr)) is not None]
        found += reversed(pairs)

    def without(numbers: frozenset[int]) -> IRModule:
        chosen: dict[str, list[tuple[Expr, Expr]]] = {}
        # Inner ones first: what is put for an outer one may have them within.
        for number in sorted(numbers, reverse=True):
            name, expr, new = found[number]
            chosen.setdefault(name, []).append((expr, new))
        return infer_module(mod.with_functions({name: _put(mod[name], pairs) for name, pairs in chosen.items()}))

    return Shrinking(what, len(found), without)


def _put(func: Function, pairs: Iterable[tuple[Expr, Expr]]) -> Expr:
    mutator = ExprMutator()
    for expr, new in pairs:
        mutator.memo_map[expr] = mutator.visit(new)
    return mutator.visit(func)


def _constant(expr: Expr) -> Expr | None:
    """Return zeros of the type of an expression, unless it is as simple already, or names something."""
    if isinstance(expr, Var | GlobalVar | Op | Function) or _is_simple(expr):
        return None
    ty = _type(expr)
    return None if ty is None else _zeros(ty)


def _type(expr: Expr) -> Type | None:
    """Return the type of an expression, None if it has none, as an operator by itself."""
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
        known = [field for field in fields if field is not None]
        return Tuple(known) if len(known) == len(fields) else None
    if not isinstance(ty, TensorType):
        return None
    shape = [dim for dim in ty.shape if isinstance(dim, int)]
    if len(shape) < len(ty.shape):
        return None
    return zeros(shape, ty.dtype) if prod(shape) > SMALL else const(np.zeros(shape), ty.dtype)


def _parts(expr: Expr) -> Iterator[Expr]:
    """Go over the parts of an expression that can stand in its place: of its type, with no variable that it binds."""
    ty = _type(expr)
    return (part for part in _directly_below(expr) if ty is not None and _type(part) == ty)


def _directly_below(expr: Expr) -> Sequence[Expr]:
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
    """Return the way of leaving out parameters that nothing uses, of functions that nothing calls."""
    used = {node for _, func in _functions(mod) for node in post_order(func.body)}
    called = {node.name_hint for node in used if isinstance(node, GlobalVar)}
    found = [
        (name, param)
        for name, func in _functions(mod)
        if name not in called
        for param in func.params
        if param not in used
    ]

    def without(numbers: frozenset[int]) -> IRModule:
        gone = {found[number] for number in numbers}
        updates = {name: _without(mod[name], {param for one, param in gone if one == name}) for name, _ in gone}
        return infer_module(mod.with_functions(updates))

    return Shrinking("parameters", len(found), without)


def _without(func: Function, gone: set[Var]) -> Function:
    kept = [param for param in func.params if param not in gone]
    return Function(kept, func.body, func.ret_type, func.type_params, func.attrs, span=func.span)


def _functions(mod: IRModule) -> Iterator[tuple[str, Function]]:
    for gvar in mod.get_global_vars():
        yield gvar.name_hint, mod[gvar]
