"""A small network with the operators of large ones, for quick tests."""

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.shape.reshape import reshape, reshape_like
from apass.relay.testing import layers
from apass.relay.testing.init import Constant, create_workload

__all__ = ["get_net", "get_workload"]


def get_net(
    input_shape: tuple[int, int, int, int] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Function:
    """Return the network for images of a shape.

    `wtype` is the element type of the weights, by default `dtype`.
    """
    weights = dtype if wtype is None else wtype
    data = var("data", shape=input_shape, dtype=dtype)
    first = _dense_and_convolution(data, data, input_shape, weights, "")
    normalized = layers.batch_norm_infer(nn.bias_add(first, var("bias")), name="batch_norm")
    net = _dense_and_convolution(normalized, data, input_shape, weights, "2")
    return Function(free_vars(net), net)


def _dense_and_convolution(image: Expr, like: Expr, shape: tuple[int, ...], weights: str, suffix: str) -> Call:
    """Return the sum of a dense layer and a convolution."""
    _, channels, _, width = shape
    dense_weight = var(f"dense{suffix}_weight", shape=(width, width), dtype=weights)
    conv_weight = var(f"conv{suffix}_weight", shape=(channels, channels, 3, 3), dtype=weights)
    dense = nn.relu(nn.dense(reshape(image, (-1, width)), dense_weight))
    conv = nn.conv2d(image, conv_weight, padding=1, kernel_size=3)
    return add(reshape_like(dense, like), nn.softmax(conv))


def get_workload(
    input_shape: tuple[int, int, int, int] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters."""
    return create_workload(get_net(input_shape, dtype, wtype), initializer=Constant())
