"""DynamicToStatic: shapes that are computed become attributes where they can be computed now; TVM's pass."""

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Expr, Op
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.dyn.dyn import Static
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.fold_constant import ConstantFolder
from apass.relay.transform.support.decorators import function_pass, typed_if_possible

__all__ = ["DynamicToStatic", "dynamic_to_static"]


def dynamic_to_static(func: Function, mod: IRModule) -> Function:
    """Return a function in which operators of `dyn` with shapes that can be computed now are those of the same names.

    A shape that becomes known may let others be: as long as there are such, types are inferred and constants folded.
    """
    if not any(_static(node) for node in post_order(func)):
        return func
    while True:
        typed = typed_if_possible(func, mod)
        folded = rewrite_function(ConstantFolder(typed, mod), typed)
        made = rewrite_function(_ToStatic(), folded)
        if made is typed:
            return typed
        func = made


@provide_pass("DynamicToStatic")
def DynamicToStatic() -> FunctionPass[IRModule, Function]:
    """Make attributes of shapes that are computed, where they can be computed now."""

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return dynamic_to_static(func, mod)

    return function_pass(convert, opt_level=2, name="DynamicToStatic")


def _static(expr: Expr) -> Static | None:
    found = expr.op.get_attr("FStatic") if isinstance(expr, Call) and isinstance(expr.op, Op) else None
    return found if isinstance(found, Static) else None


class _ToStatic(ExprMutator):
    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        how = _static(new)
        return (how.call(new) or new) if how is not None and isinstance(new, Call) else new
