"""SqueezeNet: fire modules, which squeeze and then expand the channels.

Iandola et al., arXiv 1602.07360.
"""

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.op.shape.join import concatenate
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload"]

_FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Channels of each fire module: after the squeeze, and of each expanding convolution."""
_VERSIONS = {"1.0": (96, 7, {0, 3, 7}), "1.1": (64, 3, {0, 2, 4})}
"""Channels and kernel size of the first convolution, and indices of fire modules after a pooling layer."""


def get_net(batch_size: int, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str) -> Function:
    """Return the network of version 1.0 or 1.1.

    Raises:
        ValueError: if the version is another one.

    """
    if version not in _VERSIONS:
        raise ValueError(f"version must be {' or '.join(_VERSIONS)}, got {version!r}")
    channels, window, pooled = _VERSIONS[version]
    net: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = _convolution(net, channels, window, window // 2, "conv1", strides=(2, 2))
    for index, (squeezed, expanded) in enumerate(_FIRES):
        if index in pooled:
            net = nn.max_pool2d(net, pool_size=(3, 3), strides=(2, 2))
        name = f"fire{index + 1}"
        inner = _convolution(net, squeezed, 1, 0, f"{name}_input_conv")
        left = _convolution(inner, expanded, 1, 0, f"{name}_left_conv")
        right = _convolution(inner, expanded, 3, 1, f"{name}_right_conv")
        net = concatenate((left, right), axis=1)
    net = _convolution(nn.dropout(net, rate=0.5), num_classes, 1, 0, "conv_final")
    net = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(net)))
    return Function(free_vars(net), net)


def _convolution(
    data: Expr, channels: int, window: int, padding: int, name: str, strides: tuple[int, int] = (1, 1)
) -> Call:
    size, sides = (window, window), (padding, padding)
    conv = layers.conv2d(data, channels=channels, kernel_size=size, strides=strides, padding=sides, name=name)
    return nn.relu(nn.bias_add(conv, var(f"{name}_bias")))


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters.

    Raises:
        ValueError: if there is no such version.

    """
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
