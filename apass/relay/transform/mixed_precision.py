"""How the operators take part in mixed precision: the default lists of TVM.

The counterpart of TVM's `relay/transform/mixed_precision.py`. Importing the module registers the lists for
ToMixedPrecision. `relay.op.register_mixed_precision_conversion` changes the entry of an operator.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from apass.relay.ir.expr import OPS, Call
from apass.relay.op.define.registry import register_mixed_precision_conversion

__all__ = [
    "DEFAULT_ALWAYS_LIST",
    "DEFAULT_FOLLOW_LIST",
    "DEFAULT_NEVER_LIST",
    "MIXED_PRECISION_ALWAYS",
    "MIXED_PRECISION_FOLLOW",
    "MIXED_PRECISION_NEVER",
    "Conversion",
    "generic_always_op",
    "generic_follow_op",
    "generic_never_op",
    "get_generic_out_dtypes",
    "register_func_to_op_list",
]

MIXED_PRECISION_ALWAYS: Final = 0
"""The operator is always computed in the lower precision, as it gains from it."""
MIXED_PRECISION_FOLLOW: Final = 1
"""The operator is computed in the lower precision if its operands are."""
MIXED_PRECISION_NEVER: Final = 2
"""The operator is never computed in the lower precision, for numerical reasons."""

Conversion: TypeAlias = Callable[[Call, str], tuple[int, str, str] | list[int | str]]
"""Returns the category of a call, its element type for accumulation, and that of its result."""

DEFAULT_ALWAYS_LIST: Final = [
    "nn.conv1d",
    "nn.conv2d",
    "nn.conv3d",
    "nn.conv1d_transpose",
    "nn.conv2d_transpose",
    "nn.conv3d_transpose",
    "nn.dense",
    "nn.batch_matmul",
]
"""The operators of the category `MIXED_PRECISION_ALWAYS`."""

DEFAULT_FOLLOW_LIST: Final = [
    "nn.pad",
    "nn.batch_flatten",
    "concatenate",
    "zeros",
    "split",
    "squeeze",
    "transpose",
    "expand_dims",
    "reshape",
    "dyn.reshape",
    "broadcast_to_like",
    "dyn.broadcast_to",
    "strided_slice",
    "dyn.strided_slice",
    "take",
    "argwhere",
    "where",
    "tile",
    "dyn.tile",
    "scatter",
    "full",
    "dyn.full",
    "less",
    "greater",
    "less_equal",
    "greater_equal",
    "copy",
    "cast",
    "cast_like",
    "add",
    "subtract",
    "multiply",
    "divide",
    "nn.bias_add",
    "nn.batch_norm",
    "sqrt",
    "shape_of",
    "max",
    "min",
    "maximum",
    "minimum",
    "nn.relu",
    "nn.leaky_relu",
    "nn.prelu",
    "nn.dropout",
    "sigmoid",
    "tanh",
    "nn.max_pool1d",
    "nn.max_pool2d",
    "nn.max_pool3d",
    "nn.avg_pool1d",
    "nn.avg_pool2d",
    "nn.avg_pool3d",
    "nn.global_max_pool2d",
    "nn.adaptive_max_pool1d",
    "nn.adaptive_max_pool2d",
    "nn.adaptive_max_pool3d",
]
"""The operators of the category `MIXED_PRECISION_FOLLOW`."""

DEFAULT_NEVER_LIST: Final = [
    "exp",
    "power",
    "nn.cross_entropy",
    "nn.cross_entropy_with_logits",
    "nn.softmax",
    "nn.l2_normalize",
    "erf",
    "arange",
    "nn.global_avg_pool2d",
    "nn.adaptive_avg_pool1d",
    "nn.adaptive_avg_pool2d",
    "nn.adaptive_avg_pool3d",
    "sum",
    "mean",
]
"""The operators of the category `MIXED_PRECISION_NEVER`."""


def register_func_to_op_list(list_ops: Iterable[str]) -> Callable[[Conversion], Conversion]:
    """Return a decorator that registers a function for each operator that exists."""

    def register(func: Conversion) -> Conversion:
        for name in list_ops:
            if name in OPS:
                register_mixed_precision_conversion(name, func)
        return func

    return register


def get_generic_out_dtypes(call_node: Call, mixed_precision_type: str) -> tuple[str, str]:
    """Return the lower precision twice: for accumulation and for the result."""
    return mixed_precision_type, mixed_precision_type


@register_func_to_op_list(DEFAULT_ALWAYS_LIST)
def generic_always_op(call_node: Call, mixed_precision_type: str) -> tuple[int, str, str]:
    """Return the conversion of an operator of `DEFAULT_ALWAYS_LIST`."""
    return (MIXED_PRECISION_ALWAYS, *get_generic_out_dtypes(call_node, mixed_precision_type))


@register_func_to_op_list(DEFAULT_FOLLOW_LIST)
def generic_follow_op(call_node: Call, mixed_precision_type: str) -> tuple[int, str, str]:
    """Return the conversion of an operator of `DEFAULT_FOLLOW_LIST`."""
    return (MIXED_PRECISION_FOLLOW, *get_generic_out_dtypes(call_node, mixed_precision_type))


@register_func_to_op_list(DEFAULT_NEVER_LIST)
def generic_never_op(call_node: Call, mixed_precision_type: str) -> tuple[int, str, str]:
    """Return the conversion of an operator of `DEFAULT_NEVER_LIST`."""
    return (MIXED_PRECISION_NEVER, *get_generic_out_dtypes(call_node, mixed_precision_type))
