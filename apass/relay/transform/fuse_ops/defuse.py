"""DefuseOps: replace calls of primitive functions by their bodies.

The counterpart of TVM's `defuse_ops.cc`.
"""

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.fuse_ops.graph import PRIMITIVE
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["DefuseOps", "defuse_ops"]


def defuse_ops(func: Function) -> Function:
    """Return the function with calls of primitive functions replaced by their bodies.

    This undoes `fuse_ops`.
    """
    return rewrite_function(_DefuseMutator(), func)


@provide_pass("DefuseOps")
def DefuseOps() -> FunctionPass[IRModule, Function]:
    """Replace calls of primitive functions by their bodies: the inverse of FuseOps."""
    return function_pass(_defuse, opt_level=3, name="DefuseOps", required=["InferType"])


def _defuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return defuse_ops(func)


class _DefuseMutator(ExprMutator):
    """Replaces calls of primitive functions by their bodies."""

    def visit_call(self, call: Call) -> Expr:
        """Return the body of the primitive function, applied to the arguments."""
        new = super().visit_call(call)
        if not isinstance(new, Call) or not isinstance(new.op, Function) or PRIMITIVE not in new.op.attrs:
            return new
        inside = ExprMutator()
        inside.memo_map.update(zip(new.op.params, new.args, strict=True))
        return inside.visit(new.op.body)
