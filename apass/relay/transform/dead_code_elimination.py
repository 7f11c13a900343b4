"""DeadCodeElimination: drop a Let whose variable is unused; TVM's `dead_code.cc`.

TVM 0.8 drops every such Let, and inlines any value whose variable is used once. This pass preserves the meaning of
programs with cells:

- A value that writes to a cell stays.
- A value that reads a cell stays where moving it could pass a write.
- A value is never moved into a function, where it would be computed at every call.
"""

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.ir.expr import Expr, Let, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.support.reporting import count_dropped, remark_on_dropping
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["DeadCodeElimination", "eliminate_dead_code"]


def eliminate_dead_code(func: Function, mod: IRModule | None = None, inline_once: bool = False) -> Function:
    """Return a function without the Lets whose values are unused.

    With `inline_once`, a value that is used once replaces its variable.

    >>> from apass.relay.ir.expr import const, var
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
    """Drop the Lets whose values are unused; inline values used once if asked for."""

    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        result = eliminate_dead_code(func, mod, inline_once)
        if ctx.wants_remarks:
            remark_on_dropping(ctx, func, result)
        if ctx.wants_statistics:
            count_dropped(ctx, func, result)
        return result

    return function_pass(eliminate, opt_level=1, name="DeadCodeElimination")


def _count_uses(func: Function, lets: dict[Var, Let], effects: Effects) -> dict[Var, int]:
    """Return how often live code uses each variable that a Let binds.

    A use counts twice if it is shared, or if it is in a function nested in the one that binds the variable.
    Two is enough to keep the binding, so the exact number above it does not matter.
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
            count = uses.get(node, 0)
            uses[node] = count + (1 if owners[node] is owner else 2)
            # The first use makes the value live. A value that writes was queued at its Let.
            if not count and effects.of(lets[node].value) < Effect.WRITE:
                work.append((lets[node].value, owners[node]))
            continue
        visits[node] = visits.get(node, 0) + 1
        # Two visits show that a node is shared. More would make the walk exponential in the depth of the sharing.
        if visits[node] > 2:
            continue
        if isinstance(node, Let):
            owners[node.var] = owner
            is_live = effects.of(node.value) is Effect.WRITE
            work += ((child, owner) for child in ((node.value, node.body) if is_live else (node.body,)))
        else:
            inner = node if isinstance(node, Function) else owner
            work += ((child, inner) for child in node.children)
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
