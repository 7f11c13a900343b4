"""ToGraphNormalForm: values stand where their variables do, shared as a graph; TVM's `to_graph_normal_form.cc`.

TVM dissolves every Let. Here a Let stays whose value makes, reads or writes a cell, or may: where it is evaluated
matters. A recursive function keeps a Let around its variable alone, as in TVM.
"""

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.expr import Expr, Let
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.support.decorators import function_pass

__all__ = ["ToGraphNormalForm", "to_graph_normal_form"]


def to_graph_normal_form(func: Function, mod: IRModule | None = None) -> Function:
    """Return a function in which the values of Lets stand where their variables do.

    >>> from apass.relay.make import var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> x, y = var("x"), var("y")
    >>> body = to_graph_normal_form(Function([x], Let(y, add(x, x), add(y, y)))).body
    >>> body.args[0] is body.args[1]
    True
    """
    return rewrite_function(_GraphNormalForm(Effects(func, mod)), func)


@provide_pass("ToGraphNormalForm")
def ToGraphNormalForm() -> FunctionPass[IRModule, Function]:
    """Put the values of Lets where their variables stand."""
    return function_pass(_dissolve, opt_level=1, name="ToGraphNormalForm")


def _dissolve(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return to_graph_normal_form(func, mod)


class _GraphNormalForm(ExprMutator):
    def __init__(self, effects: Effects) -> None:
        super().__init__()
        self._effects = effects

    def pre_visit_let(self, let: Let) -> None:
        if not self._goes(let):
            return
        value = self.visit(let.value)
        # The body has not been visited: if the variable has been met, then in the value, which is recursive.
        is_recursive = let.var in self.memo_map
        self.memo_map[let.var] = Let(let.var, value, let.var, span=let.span) if is_recursive else value

    def post_visit_let(self, let: Let) -> Expr:
        return self.visit(let.body) if self._goes(let) else super().post_visit_let(let)

    def _goes(self, let: Let) -> bool:
        return self._effects.of(let.value) is Effect.NONE
