"""LeNet: two convolutions with pooling, then two dense layers. LeCun et al., 1998."""

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.op.elementwise.trigonometry import tanh
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload"]


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """Return the network as a function of `data` and its parameters.

    The parameters are the weights and biases of conv1, conv2, fc1 and fc2.
    """
    net: Call = _stage(var("data", shape=(batch_size, *image_shape), dtype=dtype), 20, "conv1")
    net = nn.batch_flatten(_stage(net, 50, "conv2"))
    net = tanh(layers.dense_add_bias(net, units=500, name="fc1"))
    net = nn.softmax(layers.dense_add_bias(net, units=num_classes, name="fc2"))
    return Function(free_vars(net), net)


def _stage(data: Expr, channels: int, name: str) -> Call:
    conv = layers.conv2d(data, channels=channels, kernel_size=(5, 5), name=name)
    active = tanh(nn.bias_add(conv, var(f"{name}_bias")))
    return nn.max_pool2d(active, pool_size=(2, 2), strides=(2, 2))


def get_workload(
    batch_size: int = 1, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
