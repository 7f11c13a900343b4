"""ToGraphNormalForm: replace variables of Lets by their values, shared as a graph.

The counterpart of TVM's `to_graph_normal_form.cc`. TVM removes every Let. This pass keeps a Let whose value may make,
read or write a cell, because the time of its evaluation matters. As in TVM, a recursive function keeps a Let around its
variable alone.
"""

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.ir.expr import Expr, Let
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.function_pass import function_pass
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["ToGraphNormalForm", "to_graph_normal_form"]


def to_graph_normal_form(func: Function, mod: IRModule | None = None) -> Function:
    """Return a function with the variables of Lets replaced by their values.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x, y = var("x"), var("y")
    >>> body = to_graph_normal_form(Function([x], Let(y, add(x, x), add(y, y)))).body
    >>> body.args[0] is body.args[1]
    True
    """
    return rewrite_function(_GraphNormalForm(Effects(func, mod)), func)


@provide_pass("ToGraphNormalForm")
def ToGraphNormalForm() -> FunctionPass[IRModule, Function]:
    """Replace the variables of Lets by their values."""
    return function_pass(_dissolve, opt_level=1, name="ToGraphNormalForm")


def _dissolve(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return to_graph_normal_form(func, mod)


class _GraphNormalForm(ExprMutator):
    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects = effects

    def pre_visit_let(self, let: Let) -> None:
        if not self._is_removed(let):
            return
        value = self.visit(let.value)
        # The body was not visited yet. If the variable has a result, it occurs in the value, which is recursive.
        is_recursive = let.var in self.memo_map
        self.memo_map[let.var] = Let(let.var, value, let.var, span=let.span) if is_recursive else value

    def post_visit_let(self, let: Let) -> Expr:
        return self.visit(let.body) if self._is_removed(let) else super().post_visit_let(let)

    def _is_removed(self, let: Let) -> bool:

        return self._effects.of(let.value) is Effect.NONE
