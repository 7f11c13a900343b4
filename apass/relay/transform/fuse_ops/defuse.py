"""DefuseOps: undoes FuseOps; TVM's `defuse_ops.cc`."""

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Expr
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.fuse_ops.graph import PRIMITIVE
from apass.relay.transform.support.decorators import function_pass

__all__ = ["DefuseOps", "defuse_ops"]


def defuse_ops(func: Function) -> Function:
    """Return a function with the body of each primitive function in the place of its call: `fuse_ops` undone."""
    return rewrite_function(_DefuseMutator(), func)


@provide_pass("DefuseOps")
def DefuseOps() -> FunctionPass[IRModule, Function]:
    """Put the bodies of primitive functions back in the places of their calls."""
    return function_pass(_defuse, opt_level=3, name="DefuseOps", required=["InferType"])


def _defuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return defuse_ops(func)


class _DefuseMutator(ExprMutator):
    """Puts bodies in the places of calls."""

    def visit_call(self, call: Call) -> Expr:
        """Return the body of a primitive function, with the arguments in the places of its parameters."""
        new = super().visit_call(call)
        if not isinstance(new, Call) or not isinstance(new.op, Function) or PRIMITIVE not in new.op.attrs:
            return new
        inside = ExprMutator()
        inside.memo_map.update(zip(new.op.params, new.args, strict=True))
        return inside.visit(new.op.body)
