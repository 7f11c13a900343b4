"""CombineParallelDense: merge dense layers on one tensor.

The counterpart of TVM's `combine_parallel_dense.cc`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import attrs_of, call_op, tensor_type
from apass.relay.ir.expr import Call, Tuple
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.nn.dense.dense import DenseAttrs
from apass.relay.transform.combine_parallel.join import Repeated, Stacked
from apass.relay.transform.combine_parallel.rewrite import combine_parallel
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["CombineParallelDense", "combine_parallel_dense"]


def combine_parallel_dense(func: Function, min_num_branches: int = 3, to_batch: bool = True) -> Function:
    """Return the function with parallel dense layers combined.

    The function must be typed. Dense layers are parallel if they differ only in their weights. With `to_batch`, layers
    whose weights have one shape become an `nn.batch_matmul` of the stacked weights; without it, layers become one wider
    dense layer. Additions and activations that follow in every branch are combined as well. In a wider layer, scalars
    and operands whose last axis has size 1 are repeated.
    """
    return combine_parallel(func, _Batched() if to_batch else _Widened(), min_num_branches)


@provide_pass("CombineParallelDense")
def CombineParallelDense(min_num_branches: int = 3, to_batch: bool = True) -> FunctionPass[IRModule, Function]:
    """Combine dense layers on one tensor into a batched product or a wider layer."""

    def combine(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return combine_parallel_dense(ensure_typed(func, mod), min_num_branches, to_batch)

    return function_pass(combine, opt_level=4, name="CombineParallelDense", required=["InferType"])


def _is_static(call: Call) -> bool:
    return all(tensor_type(expr).is_static for expr in (call, call.args[1]))


@dataclass(frozen=True, slots=True)
class _Batched:
    op: str = "nn.dense"

    def fits(self, call: Call) -> bool:
        return _is_static(call) and len(tensor_type(call).shape) == 2

    def alike(self, first: Call, second: Call) -> bool:
        same_weight = tensor_type(first.args[1]) == tensor_type(second.args[1])
        return same_weight and attrs_of(first, DenseAttrs).out_dtype == attrs_of(second, DenseAttrs).out_dtype

    def combine(self, calls: Sequence[Call]) -> Call:
        data, weight = (call_op("stack", Tuple([call.args[index] for call in calls]), axis=0) for index in (0, 1))
        out_dtype = attrs_of(calls[0], DenseAttrs).out_dtype
        return call_op("nn.batch_matmul", data, weight, out_dtype=out_dtype, transpose_b=True)

    def joining(self, call: Call) -> Stacked:
        return Stacked()


@dataclass(frozen=True, slots=True)
class _Widened:
    op: str = "nn.dense"

    def fits(self, call: Call) -> bool:
        return _is_static(call)

    def alike(self, first: Call, second: Call) -> bool:
        same_inputs = tensor_type(first.args[1]).shape[1] == tensor_type(second.args[1]).shape[1]
        same_dtype = tensor_type(first.args[1]).dtype == tensor_type(second.args[1]).dtype
        same_result = attrs_of(first, DenseAttrs).out_dtype == attrs_of(second, DenseAttrs).out_dtype
        return same_inputs and same_dtype and same_result

    def combine(self, calls: Sequence[Call]) -> Call:
        weight = call_op("concatenate", Tuple([call.args[1] for call in calls]), axis=0)
        units = sum(tensor_type(call.args[1]).concrete_shape[0] for call in calls)
        return Call(calls[0].op, (calls[0].args[0], weight), replace(attrs_of(calls[0], DenseAttrs), units=units))

    def joining(self, call: Call) -> Repeated:
        return Repeated(-1)
