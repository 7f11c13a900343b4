"""The deep Q-network: three convolutions, then two dense layers.

Mnih et al., Nature 518, 2015.
"""

from apass.relay.ir.expr import Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload"]

_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel size and stride of each convolution."""


def get_net(
    batch_size: int,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:
    """Return the network as a function of `data` and its parameters.

    The parameters are the weights and biases of conv1 to conv3, dense1 and dense2.
    """
    net: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for layer, (channels, kernel, stride) in enumerate(_CONVOLUTIONS, 1):
        name = f"conv{layer}"
        net = layers.conv2d(
            net,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            name=name,
            data_layout=layout,
            kernel_layout=layers.conv_kernel_layout(layout),
        )
        net = nn.relu(nn.bias_add(net, var(f"{name}_bias"), axis=layout.index("C")))
    net = nn.relu(layers.dense_add_bias(nn.batch_flatten(net), units=512, name="dense1"))
    net = layers.dense_add_bias(net, units=num_actions, name="dense2")
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_actions: int = 18,
    image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
