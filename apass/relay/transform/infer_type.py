"""InferType: every expression of a module gets its type; TVM's `type_infer.cc`."""

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.transform.support.decorators import module_pass
from apass.relay.ty import Type
from apass.relay.type_inference.infer import infer_expr, infer_module

__all__ = ["InferType", "InferTypeLocal"]


@provide_pass("InferType")
def InferType() -> ModulePass[IRModule]:
    """Find the type of every expression, give variables and results theirs, and fill in the type arguments of calls."""
    return module_pass(_infer, opt_level=0, name="InferType")


def InferTypeLocal(expr: Expr) -> Type:
    """Return the type of an expression, taking those below it that have a type at their word.

    Only what has no type yet is looked at, which is quick when a pass has built a few nodes over typed ones. The
    expression itself is not changed: nodes are immutable.

    Raises:
        TypeInferenceError: if it has none, or refers to a global variable.

    """
    return infer_expr(expr).checked_type


def _infer(mod: IRModule, ctx: PassContext) -> IRModule:
    return infer_module(mod)
