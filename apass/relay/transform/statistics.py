"""What some passes of Relay count of their work; called by their shells, and only where an instrument counts."""

from collections import Counter
from collections.abc import Mapping

from apass.core.context import PassContext
from apass.relay.expr import Constant, Expr, Let
from apass.relay.function import Function
from apass.relay.ir.calls import op_name
from apass.relay.ir.post_order import post_order

__all__ = ["count_dropped", "count_folded", "count_merged"]


def count_folded(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Count the calls that FoldConstant has computed."""
    _count(ctx, "folded", sum(1 for old, new in memo.items() if op_name(old) and isinstance(new, Constant)))


def count_merged(ctx: PassContext, memo: Mapping[Expr, Expr]) -> None:
    """Count the calls that EliminateCommonSubexpr has done without."""
    counts = Counter(new for old, new in memo.items() if op_name(old) and op_name(new))
    _count(ctx, "eliminated", sum(count - 1 for count in counts.values()))


def count_dropped(ctx: PassContext, func: Function, made: Function) -> None:
    """Count the bindings that DeadCodeElimination has dropped, or put in the one place that needs them."""
    if made is not func:
        _count(ctx, "dropped", _bindings(func) - _bindings(made))


def _bindings(func: Function) -> int:
    return sum(1 for node in post_order(func) if isinstance(node, Let))


def _count(ctx: PassContext, name: str, amount: int) -> None:
    if amount:
        ctx.statistic(name, amount)
