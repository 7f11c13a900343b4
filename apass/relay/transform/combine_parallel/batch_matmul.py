"""CombineParallelBatchMatmul: merge batched matrix products of one tensor.

The counterpart of TVM's pass of that name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import attrs_of, call_op, tensor_type
from apass.relay.ir.expr import Call, Tuple
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.nn.dense.dense import BatchMatmulAttrs
from apass.relay.transform.combine_parallel.join import Concatenated
from apass.relay.transform.combine_parallel.rewrite import combine_parallel
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["CombineParallelBatchMatmul", "combine_parallel_batch_matmul"]


def combine_parallel_batch_matmul(func: Function, min_num_branches: int = 3) -> Function:
    """Return the function with batched products of the same first operand combined.

    The function must be typed. As in TVM, the second operands must be transposed, and the first ones must not.
    Additions and activations that follow in every branch are combined as well.
    """
    return combine_parallel(func, _Widened(), min_num_branches)


@provide_pass("CombineParallelBatchMatmul")
def CombineParallelBatchMatmul(min_num_branches: int = 3) -> FunctionPass[IRModule, Function]:
    """Combine batched matrix products of one tensor into a wider one."""

    def combine(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return combine_parallel_batch_matmul(ensure_typed(func, mod), min_num_branches)

    return function_pass(combine, opt_level=4, name="CombineParallelBatchMatmul", required=["InferType"])


@dataclass(frozen=True, slots=True)
class _Widened:
    op: str = "nn.batch_matmul"

    def fits(self, call: Call) -> bool:
        attrs = attrs_of(call, BatchMatmulAttrs)
        is_static = all(tensor_type(expr).is_static for expr in (call, *call.args))
        return is_static and attrs.transpose_b and not attrs.transpose_a

    def alike(self, first: Call, second: Call) -> bool:
        left, right = tensor_type(first.args[1]), tensor_type(second.args[1])
        same_types = left.dtype == right.dtype and tensor_type(first).dtype == tensor_type(second).dtype
        return same_types and left.shape[0] == right.shape[0]

    def combine(self, calls: Sequence[Call]) -> Call:
        joined = call_op("concatenate", Tuple([call.args[1] for call in calls]), axis=1)
        return Call(calls[0].op, (calls[0].args[0], joined), calls[0].attrs)

    def joining(self, call: Call) -> Concatenated:
        return Concatenated(-1)
