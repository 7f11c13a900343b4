"""CombineParallelConv2D: merge convolutions of one tensor into a wider one.

The counterpart of TVM's `combine_parallel_conv2d.cc`.
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
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.nn.conv.conv import Conv2DAttrs
from apass.relay.transform.combine_parallel.join import Concatenated
from apass.relay.transform.combine_parallel.rewrite import combine_parallel
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["CombineParallelConv2D", "combine_parallel_conv2d"]


def combine_parallel_conv2d(func: Function, min_num_branches: int = 3) -> Function:
    """Return the function with parallel convolutions combined into a wider one.

    The function must be typed. Convolutions are parallel if they differ only in their weights. Additions and
    activations that follow in every branch are combined as well.
    """
    return combine_parallel(func, _Conv2DCombination(), min_num_branches)


@provide_pass("CombineParallelConv2D")
def CombineParallelConv2D(min_num_branches: int = 3) -> FunctionPass[IRModule, Function]:
    """Combine convolutions of one tensor, and what follows them, into wider ones."""

    def combine(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return combine_parallel_conv2d(ensure_typed(func, mod), min_num_branches)

    return function_pass(combine, opt_level=4, name="CombineParallelConv2D", required=["InferType"])


@dataclass(frozen=True, slots=True)
class _Conv2DCombination:
    op: str = "nn.conv2d"

    def fits(self, call: Call) -> bool:
        is_static = tensor_type(call).is_static and tensor_type(call.args[1]).is_static
        return is_static and attrs_of(call, Conv2DAttrs).groups == 1 and _fills_blocks(call)

    def alike(self, first: Call, second: Call) -> bool:
        return _shared_properties(first) == _shared_properties(second)

    def combine(self, calls: Sequence[Call]) -> Call:
        attrs = attrs_of(calls[0], Conv2DAttrs)
        layout = parse_layout(attrs.kernel_layout)
        axis = layout.index("O")
        weight = call_op("concatenate", Tuple([call.args[1] for call in calls]), axis=axis)
        channels = sum(tensor_type(call.args[1]).concrete_shape[axis] for call in calls) * layout.factor("O")
        return Call(calls[0].op, (calls[0].args[0], weight), replace(attrs, channels=channels))

    def joining(self, call: Call) -> Concatenated:
        attrs = attrs_of(call, Conv2DAttrs)
        return Concatenated(parse_layout(attrs.out_layout or attrs.data_layout).index("C"))


def _fills_blocks(call: Call) -> bool:
    """Return whether the filters fill the blocks of the weight and of the result.

    The blocks of several convolutions can then follow one another.
    """
    attrs = attrs_of(call, Conv2DAttrs)
    kernel, result = parse_layout(attrs.kernel_layout), parse_layout(attrs.out_layout or attrs.data_layout)
    channels = tensor_type(call.args[1]).concrete_shape[kernel.index("O")] * kernel.factor("O")
    return tensor_type(call).concrete_shape[result.index("C")] * result.factor("C") == channels


def _shared_properties(call: Call) -> tuple[object, ...]:
    """Return what two convolutions must share to be combined.

    That is everything but the number of output channels.
    """
    attrs = attrs_of(call, Conv2DAttrs)
    weight = tensor_type(call.args[1])
    outputs = parse_layout(attrs.kernel_layout).index("O")
    window = tuple(dim for axis, dim in enumerate(weight.shape) if axis != outputs)
    return replace(attrs, channels=None, kernel_size=None), window, weight.dtype
