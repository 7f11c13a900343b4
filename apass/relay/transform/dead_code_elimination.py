"""DeadCodeElimination: a Let whose variable nothing needs goes; TVM's `dead_code.cc`.

TVM 0.8 drops every such Let, and moves the value of a variable that is used once whatever it is. Here a value that
writes to a cell stays, and so does one that reads a cell where it might be moved past a write: programs keep what they
mean. Neither is a value moved into a function, where it would be computed at every call.
"""

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.expr import Expr, Let, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.statistics import count_dropped
from apass.relay.transform.support.decorators import function_pass
from apass.relay.transform.support.reporting import remark_on_dropping

__all__ = ["DeadCodeElimination", "eliminate_dead_code"]


def eliminate_dead_code(func: Function, mod: IRModule | None = None, inline_once: bool = False) -> Function:
    """Return a function without the Lets whose values nothing needs.

    With `inline_once`, a value that is needed in one place stands there itself.

    >>> from apass.relay.make import const, var
    >>> x, y = var("x"), var("y")
    >>> eliminate_dead_code(Function([x], Let(y, const(1), x))).body
    <relay.Var %x>
    """
    lets = {node.var: node for node in post_order(func) if isinstance(node, Let)}
    if not lets:
        return func
    effects = Effects(func, mod)
    uses = _count_uses(func, lets, effects)
    dropped = {var for var in lets if uses.get(var, 0) == 0 and effects.of(lets[var].value) < Effect.WRITE}
    moved = {var for var, count in uses.items() if count == 1 and effects.of(lets[var].value) is Effect.NONE}
    return rewrite_function(_Eliminator(dropped, moved if inline_once else set()), func)


@provide_pass("DeadCodeElimination")
def DeadCodeElimination(inline_once: bool = False) -> FunctionPass[IRModule, Function]:
    """Drop the Lets whose values nothing needs; put values that are needed once where that is, if asked for."""

    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        made = eliminate_dead_code(func, mod, inline_once)
        if ctx.hooks.remarks:
            remark_on_dropping(ctx, func, made)
        if ctx.hooks.statistics:
            count_dropped(ctx, func, made)
        return made

    return function_pass(eliminate, opt_level=1, name="DeadCodeElimination")


def _count_uses(func: Function, lets: dict[Var, Let], effects: Effects) -> dict[Var, int]:
    """Return how often each variable of a Let is needed, by what is needed itself.

    What is shared counts twice, and so does what is needed in a function within the one where it is bound.
    """
    uses: dict[Var, int] = {}
    owners: dict[Var, Function] = {}
    visits: dict[Expr, int] = {}
    work: list[tuple[Expr, Function]] = [(func.body, func)]
    while work:
        node, owner = work.pop()
        if isinstance(node, Var):
            if node not in owners:
                continue
            known = uses.get(node, 0)
            uses[node] = known + (1 if owners[node] is owner else 2)
            if not known and effects.of(lets[node].value) < Effect.WRITE:
                work.append((lets[node].value, owners[node]))
            continue
        visits[node] = visits.get(node, 0) + 1
        if visits[node] > 2:
            continue
        if isinstance(node, Let):
            owners[node.var] = owner
            stays = effects.of(node.value) is Effect.WRITE
            work += ((one, owner) for one in ((node.value, node.body) if stays else (node.body,)))
        else:
            inner = node if isinstance(node, Function) else owner
            work += ((one, inner) for one in node.children)
    return uses


class _Eliminator(ExprMutator):
    def __init__(self, dropped: set[Var], moved: set[Var]) -> None:
        super().__init__()
        self._dropped = dropped
        self._moved = moved

    def pre_visit_let(self, let: Let) -> None:
        if let.var in self._moved:
            self.memo_map[let.var] = self.visit(let.value)

    def post_visit_let(self, let: Let) -> Expr:
        if let.var in self._dropped or let.var in self._moved:
            return self.visit(let.body)
        return super().post_visit_let(let)
