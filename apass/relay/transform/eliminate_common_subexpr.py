"""EliminateCommonSubexpr: merge calls that compute the same value.

The counterpart of TVM's `eliminate_common_subexpr.cc`.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.support.reporting import count_merged, remark_on_merging
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["EliminateCommonSubexpr", "eliminate_common_subexpr"]

SMALL: Final = 256
"""Largest constant, in bytes, that is compared by value; larger ones by identity. TVM compares scalars by value."""

Skip: TypeAlias = Callable[[Expr], bool]
"""Returns whether to leave an expression as it is."""


def eliminate_common_subexpr(func: Function, fskip: Skip | None = None) -> Function:
    """Return a function in which equal calls on the same arguments are one call.

    Calls are equal if their operators and attributes are. Equal fields of one tuple are merged as well. Arguments are
    compared as follows:

    - small constants by their values
    - tuple expressions by their fields
    - all others by identity

    Stateful operators, and expressions for which `fskip` is true, are left as they are.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x, y = var("x"), var("y")
    >>> body = eliminate_common_subexpr(Function([x, y], add(add(x, y), add(x, y)))).body
    >>> body.args[0] is body.args[1]
    True
    """
    return rewrite_function(_CommonSubexprEliminator(fskip), func)


@provide_pass("EliminateCommonSubexpr")
def EliminateCommonSubexpr(fskip: Skip | None = None) -> FunctionPass[IRModule, Function]:
    """Merge calls that compute the same value, except those for which `fskip` is true."""

    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        eliminator = _CommonSubexprEliminator(fskip)
        result = rewrite_function(eliminator, func)
        if ctx.wants_remarks:
            remark_on_merging(ctx, eliminator.memo_map)
        if ctx.wants_statistics:
            count_merged(ctx, eliminator.memo_map)
        return result

    return function_pass(eliminate, opt_level=3, name="EliminateCommonSubexpr", required=["InferType"])


class _CommonSubexprEliminator(ExprMutator):
    def __init__(self, fskip: Skip | None) -> None:
        super().__init__()
        self._fskip = fskip
        self._candidates: dict[tuple[object, ...], list[Expr]] = {}

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call) or not isinstance(new.op, Op) or not new.args:
            return new
        if new.op.get_attr("TOpIsStateful") or self._skips(new):
            return new
        candidates = self._candidates.setdefault((new.op, *map(_key, new.args)), [])
        for candidate in candidates:
            if isinstance(candidate, Call) and candidate.attrs == new.attrs:
                return candidate
        candidates.append(new)
        return new

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        if not isinstance(new, TupleGetItem) or self._skips(new):
            return new
        candidates = self._candidates.setdefault((new.index, new.tuple_value), [new])
        return candidates[0]

    def _skips(self, expr: Expr) -> bool:
        return self._fskip is not None and self._fskip(expr)


def _key(arg: Expr) -> object:
    """Return a key that is equal for equal arguments; tuples compare by fields."""
    return ("tuple", *map(_part_key, arg.fields)) if isinstance(arg, Tuple) else _part_key(arg)


def _part_key(arg: Expr) -> object:
    """Return the value of a small constant, else the expression itself."""
    if isinstance(arg, Constant) and arg.data.nbytes <= SMALL:
        return str(arg.data.dtype), arg.data.shape, arg.data.tobytes()
    return arg
