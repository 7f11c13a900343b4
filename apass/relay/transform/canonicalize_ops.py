"""CanonicalizeOps: `nn.bias_add` becomes an addition.

The counterpart of TVM's `canonicalize_ops.cc`.
"""

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import along_axis, call_op, op_name, tensor_type
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.nn.dense.bias import BiasAddAttrs
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["CanonicalizeOps", "canonicalize_ops"]


def canonicalize_ops(func: Function) -> Function:
    """Return the function with `add` in place of `nn.bias_add`.

    The function must be typed.
    """
    return rewrite_function(_Canonicalizer(), func)


@provide_pass("CanonicalizeOps")
def CanonicalizeOps() -> FunctionPass[IRModule, Function]:
    """Replace nn.bias_add by expand_dims and add, which later passes fold and fuse."""
    return function_pass(_canonicalize, opt_level=3, name="CanonicalizeOps", required=["InferType"])


def _canonicalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return canonicalize_ops(ensure_typed(func, mod))


class _Canonicalizer(ExprMutator):
    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if op_name(new) != "nn.bias_add" or not isinstance(new, Call) or not isinstance(new.attrs, BiasAddAttrs):
            return new
        data, bias = new.args
        rank = len(tensor_type(call.args[0]).shape)
        return call_op("add", data, along_axis(bias, new.attrs.axis, rank))
