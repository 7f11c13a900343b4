"""CanonicalizeOps: `nn.bias_add` becomes an addition, which other passes know; TVM's `canonicalize_ops.cc`."""

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Expr
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.calls import along_axis, call_op, op_name, tensor_type
from apass.relay.ir.module import IRModule
from apass.relay.op.nn.dense.bias import BiasAddAttrs
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.support.decorators import function_pass
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["CanonicalizeOps", "canonicalize_ops"]


def canonicalize_ops(func: Function) -> Function:
    """Return a typed function with every `nn.bias_add` as an `add` of the expanded bias."""
    return rewrite_function(_Canonicalizer(), func)


@provide_pass("CanonicalizeOps")
def CanonicalizeOps() -> FunctionPass[IRModule, Function]:
    """Turn nn.bias_add into expand_dims and add, which folding and fusing passes know."""
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
