"""Inception v3, for images of 299 by 299 pixels. Szegedy et al., arXiv 1512.00567."""

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class _Conv:
    """A convolution of a tower."""

    channels: int
    """The number of output channels."""
    window: tuple[int, int] = (1, 1)
    """The size of the kernel."""
    stride: int = 1
    """The stride in both dimensions."""
    padding: tuple[int, int] = (0, 0)
    """The padding of each side: vertical, horizontal."""


def _wide(channels: int) -> _Conv:
    return _Conv(channels, (1, 7), padding=(0, 3))


def _tall(channels: int) -> _Conv:
    return _Conv(channels, (7, 1), padding=(3, 0))


def _square(channels: int, side: int = 3) -> _Conv:
    return _Conv(channels, (side, side), padding=(side // 2, side // 2))


def _halving(channels: int) -> _Conv:
    return _Conv(channels, (3, 3), stride=2)


def _conv(data: Expr, conv: _Conv, name: str) -> Call:
    """Return a convolution with batch normalization and ReLU.

    Its variables are `<name>_conv1_weight`, `<name>_bn_gamma`, ...
    """
    conv2d = layers.conv2d(
        data,
        channels=conv.channels,
        kernel_size=conv.window,
        strides=(conv.stride, conv.stride),
        padding=conv.padding,
        name=f"{name}_conv1",
    )
    return nn.relu(layers.batch_norm_infer(conv2d, epsilon=2e-5, name=f"{name}_bn"))


def _tower(data: Expr, convs: Sequence[_Conv], name: str) -> Expr:
    """Return a sequence of convolutions: `<name>_conv`, `<name>_conv_1`, ..."""
    for index, conv in enumerate(convs):
        data = _conv(data, conv, f"{name}_conv_{index}" if index else f"{name}_conv")
    return data


def _pooled(data: Expr, kind: str) -> Call:
    """Return the image pooled with a 3 by 3 window, at its original size."""
    if kind == "max":
        return nn.max_pool2d(data, (3, 3), (1, 1), padding=(1, 1))
    return nn.avg_pool2d(data, (3, 3), (1, 1), padding=(1, 1), count_include_pad=True)


def _halved(data: Expr) -> Call:
    return nn.max_pool2d(data, (3, 3), (2, 2), padding=(0, 0))


def _mixed(data: Expr, first: _Conv, towers: Sequence[Sequence[_Conv]], pool: str, projected: int, name: str) -> Call:
    """Concatenate a convolution, towers, and a projected pooling layer."""
    parts: list[Expr] = [_conv(data, first, f"{name}_conv")]
    for index, convs in enumerate(towers):
        parts.append(_tower(data, convs, f"{name}_tower_{index}" if index else f"{name}_tower"))
    parts.append(_conv(_pooled(data, pool), _Conv(projected), f"{name}_tower_{len(towers)}_conv"))
    return concatenate(parts, axis=1)


def _block_b(data: Expr, name: str) -> Call:
    """Return a block that halves the image."""
    first = _conv(data, _halving(384), f"{name}_conv")
    tower = _tower(data, [_Conv(64), _square(96), _halving(96)], f"{name}_tower")
    return concatenate([first, tower, _halved(data)], axis=1)


def _block_c(data: Expr, inner: int, name: str) -> Call:
    towers = [
        [_Conv(inner), _wide(inner), _tall(192)],
        [_Conv(inner), _tall(inner), _wide(inner), _tall(inner), _wide(192)],
    ]
    return _mixed(data, _Conv(192), towers, "avg", 192, name)


def _block_d(data: Expr, name: str) -> Call:
    """Return a block that halves the image."""
    first = _tower(data, [_Conv(192), _halving(320)], f"{name}_tower")
    second = _tower(data, [_Conv(192), _wide(192), _tall(192), _halving(192)], f"{name}_tower_1")
    return concatenate([first, second, _halved(data)], axis=1)


def _block_e(data: Expr, pool: str, name: str) -> Call:
    """Return a block whose towers fork at the end."""
    first = _conv(data, _Conv(320), f"{name}_conv")
    forks = [
        *_fork(_tower(data, [_Conv(384)], f"{name}_tower"), f"{name}_tower"),
        *_fork(_tower(data, [_Conv(448), _square(384)], f"{name}_tower_1"), f"{name}_tower_1"),
    ]
    projection = _conv(_pooled(data, pool), _Conv(192), f"{name}_tower_2_conv")
    return concatenate([first, *forks, projection], axis=1)


def _fork(data: Expr, name: str) -> list[Expr]:
    wide, tall = _Conv(384, (1, 3), padding=(0, 1)), _Conv(384, (3, 1), padding=(1, 0))
    return [_conv(data, wide, f"{name}_mixed_conv"), _conv(data, tall, f"{name}_mixed_conv_1")]


def _stem(data: Expr) -> Expr:
    """Return the layers before the blocks."""
    net = _conv(data, _halving(32), "conv")
    net = _conv(_conv(net, _Conv(32, (3, 3)), "conv_1"), _square(64), "conv_2")
    net = _conv(_conv(_halved(net), _Conv(80), "conv_3"), _Conv(192, (3, 3)), "conv_4")
    return _halved(net)


def get_net(batch_size: int, num_classes: int, image_shape: tuple[int, ...], dtype: str) -> Function:
    """Return the network as a function of `data` and its parameters."""
    net = _stem(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for name, projected in (("mixed", 32), ("mixed_1", 64), ("mixed_2", 64)):
        towers = [[_Conv(48), _square(64, 5)], [_Conv(64), _square(96), _square(96)]]
        net = _mixed(net, _Conv(64), towers, "avg", projected, name)
    net = _block_b(net, "mixed_3")
    for name, inner in (("mixed_4", 128), ("mixed_5", 160), ("mixed_6", 160), ("mixed_7", 192)):
        net = _block_c(net, inner, name)
    net = _block_e(_block_e(_block_d(net, "mixed_8"), "avg", "mixed_9"), "max", "mixed_10")
    pooled = nn.avg_pool2d(net, (8, 8), (1, 1), padding=(0, 0), count_include_pad=True)
    dense = nn.dense(nn.batch_flatten(pooled), var("fc1_weight"), units=num_classes)
    out = nn.softmax(nn.bias_add(dense, var("fc2_bias")))
    return Function(free_vars(out), out)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 299, 299),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
