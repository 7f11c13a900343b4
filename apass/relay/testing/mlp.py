"""A multilayer perceptron: three dense layers."""

from apass.relay.ir.expr import var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload"]


def get_net(
    batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """Return the network as a function of `data` and its parameters.

    The parameters are the weights and biases of `fc1`, `fc2` and `fc3`.
    """
    net = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for layer, units in enumerate((128, 64, num_classes), 1):
        net = nn.dense(net, var(f"fc{layer}_weight"), units=units)
        net = nn.bias_add(net, var(f"fc{layer}_bias"))
        net = nn.softmax(net) if layer == 3 else nn.relu(net)
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
