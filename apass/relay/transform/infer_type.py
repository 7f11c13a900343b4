"""InferType: find the type of every expression of a module; TVM's `type_infer.cc`."""

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import Type
from apass.relay.transform.support.module_pass import module_pass
from apass.relay.type_inference.infer import infer_expr, infer_module

__all__ = ["InferType", "InferTypeLocal"]


@provide_pass("InferType")
def InferType() -> ModulePass[IRModule]:
    """Find the type of every expression.

    Variables and results get annotations, and calls get their type arguments.
    """
    return module_pass(_infer, opt_level=0, name="InferType")


def InferTypeLocal(expr: Expr) -> Type:
    """Return the type of an expression, without checking the typed nodes below it.

    Only untyped nodes are visited, which is fast when a pass has built a few nodes over typed ones. The expression
    itself does not change: nodes are immutable.

    Raises:
        TypeInferenceError: if the expression is ill-typed, or refers to a global variable.

    """
    return infer_expr(expr).checked_type


def _infer(mod: IRModule, ctx: PassContext) -> IRModule:
    return infer_module(mod)
