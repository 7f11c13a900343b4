"""EliminateCommonSubexpr: calls that must give the same value become one; TVM's `eliminate_common_subexpr.cc`."""

from collections.abc import Callable
from typing import Final, TypeAlias

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.statistics import count_merged
from apass.relay.transform.support.decorators import function_pass
from apass.relay.transform.support.reporting import remark_on_merging

__all__ = ["EliminateCommonSubexpr", "eliminate_common_subexpr"]

SMALL: Final = 256
"""The bytes of a constant up to which it is compared by its value, not as an object; TVM does this with scalars."""

Skip: TypeAlias = Callable[[Expr], bool]
"""Tells of an expression that it is to be left alone."""


def eliminate_common_subexpr(func: Function, fskip: Skip | None = None) -> Function:
    """Return a function in which calls of one operator on the same arguments, with equal attributes, are one call.

    So are the fields of one tuple. Small constants are the same if their values are, tuples in place if their fields
    are. Stateful operators are left alone, and what `fskip` tells of.

    >>> from apass.relay.make import var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x, y = var("x"), var("y")
    >>> body = eliminate_common_subexpr(Function([x, y], add(add(x, y), add(x, y)))).body
    >>> body.args[0] is body.args[1]
    True
    """
    return rewrite_function(_CommonSubexprEliminator(fskip), func)


@provide_pass("EliminateCommonSubexpr")
def EliminateCommonSubexpr(fskip: Skip | None = None) -> FunctionPass[IRModule, Function]:
    """Make one call of those that must give the same value, but for what `fskip` tells of."""

    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        eliminator = _CommonSubexprEliminator(fskip)
        made = rewrite_function(eliminator, func)
        if ctx.hooks.remarks:
            remark_on_merging(ctx, eliminator.memo_map)
        if ctx.hooks.statistics:
            count_merged(ctx, eliminator.memo_map)
        return made

    return function_pass(eliminate, opt_level=3, name="EliminateCommonSubexpr", required=["InferType"])


class _CommonSubexprEliminator(ExprMutator):
    def __init__(self, fskip: Skip | None) -> None:
        super().__init__()
        self._fskip = fskip
        self._known: dict[tuple[object, ...], list[Expr]] = {}

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call) or not isinstance(new.op, Op) or not new.args:
            return new
        if new.op.get_attr("TOpIsStateful") or self._skips(new):
            return new
        alike = self._known.setdefault((new.op, *map(_key, new.args)), [])
        for one in alike:
            if isinstance(one, Call) and one.attrs == new.attrs:
                return one
        alike.append(new)
        return new

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        if not isinstance(new, TupleGetItem) or self._skips(new):
            return new
        alike = self._known.setdefault((new.index, new.tuple_value), [new])
        return alike[0]

    def _skips(self, expr: Expr) -> bool:
        return self._fskip is not None and self._fskip(expr)


def _key(arg: Expr) -> object:
    """Return what two arguments share that are the same: tuples are by their fields."""
    return ("tuple", *map(_part_key, arg.fields)) if isinstance(arg, Tuple) else _part_key(arg)


def _part_key(arg: Expr) -> object:
    """Return the value of a small constant, else the expression itself."""
    if isinstance(arg, Constant) and arg.data.nbytes <= SMALL:
        return str(arg.data.dtype), arg.data.shape, arg.data.tobytes()
    return arg
