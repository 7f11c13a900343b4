"""DynamicToStatic: shapes that can be computed now become attributes; TVM's pass."""

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.dyn.dyn import Static
from apass.relay.transform.fold_constant import ConstantFolder
from apass.relay.transform.function_pass import function_pass, typed_if_possible
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["DynamicToStatic", "dynamic_to_static"]


def dynamic_to_static(func: Function, mod: IRModule) -> Function:
    """Return a function whose `dyn` operators are static where their shapes are known.

    A shape that becomes known may make others known. Types are inferred and constants folded until no operator of `dyn`
    changes. As in TVM, constants are folded in every function, such as an If whose condition is constant.
    """
    while True:
        typed = typed_if_possible(func, mod)
        folded = rewrite_function(ConstantFolder(typed, mod), typed)
        static = rewrite_function(_ToStatic(), folded)
        # The same object also means that folding changed nothing, so the types are still valid.
        if static is typed:
            return typed
        func = static


@provide_pass("DynamicToStatic")
def DynamicToStatic() -> FunctionPass[IRModule, Function]:
    """Turn shapes that can be computed now into attributes."""

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return dynamic_to_static(func, mod)

    return function_pass(convert, opt_level=2, name="DynamicToStatic")


def _static(expr: Expr) -> Static | None:
    static = expr.op.get_attr("FStatic") if isinstance(expr, Call) and isinstance(expr.op, Op) else None
    return static if isinstance(static, Static) else None


class _ToStatic(ExprMutator):
    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        static = _static(new)
        return (static.call(new) or new) if static is not None and isinstance(new, Call) else new
