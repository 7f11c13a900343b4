"""MobileNet: pairs of a depthwise and a pointwise convolution.

Howard et al., arXiv 1704.04861.
"""

from collections.abc import Sequence

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["conv_block", "get_workload", "mobile_net", "separable_conv_block"]

_FIRST = ((32, 64, False), (64, 128, True), (128, 128, False), (128, 256, True), (256, 256, False), (256, 512, True))
_DEEP = (*((512, 512, False),) * 5, (512, 1024, True), (1024, 1024, False))
_SHALLOW = ((512, 1024, True), (1024, 1024, True))
"""Input channels, output channels, and whether the block halves the image."""


def conv_block(
    data: Expr,
    name: str,
    channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
) -> Call:
    """Return a convolution with batch normalization and ReLU."""
    conv = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=f"{name}_conv",
    )
    return _activated(conv, f"{name}_bn", epsilon, layout)


def _activated(data: Expr, name: str, epsilon: float, layout: str) -> Call:
    return nn.relu(layers.batch_norm_infer(data, epsilon=epsilon, axis=layout.index("C"), name=name))


def separable_conv_block(
    data: Expr,
    name: str,
    depthwise_channels: int,
    pointwise_channels: int,
    kernel_size: tuple[int, int] = (3, 3),
    downsample: bool = False,
    padding: tuple[int, int] = (1, 1),
    epsilon: float = 1e-5,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Call:
    """Return a depthwise and a pointwise convolution.

    Both are followed by batch normalization and ReLU.

    Raises:
        ValueError: if the layout is neither NCHW nor NHWC.

    """
    kernel_layout = layers.conv_kernel_layout(layout, is_depthwise=True)
    filters = (depthwise_channels, 1)
    shape = (*filters, *kernel_size) if layout == "NCHW" else (*kernel_size, *filters)
    depthwise = layers.conv2d(
        data,
        var(f"{name}_weight", shape=shape, dtype=dtype),
        channels=depthwise_channels,
        groups=depthwise_channels,
        kernel_size=kernel_size,
        strides=(2, 2) if downsample else (1, 1),
        padding=padding,
        data_layout=layout,
        kernel_layout=kernel_layout,
        name=f"{name}_depthwise_conv1",
    )
    pointwise = layers.conv2d(
        _activated(depthwise, f"{name}_bn1", epsilon, layout),
        channels=pointwise_channels,
        kernel_size=(1, 1),
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=f"{name}_conv2",
    )
    return _activated(pointwise, f"{name}_bn2", epsilon, layout)


def mobile_net(
    num_classes: int = 1000,
    data_shape: Sequence[int] = (1, 3, 224, 224),
    dtype: str = "float32",
    alpha: float = 1.0,
    is_shallow: bool = False,
    layout: str = "NCHW",
) -> Function:
    """Return the network.

    Parameters:
        num_classes: the number of classes.
        data_shape: the shape of a batch of images.
        dtype: the element type of the images.
        alpha: a factor for the number of channels.
        is_shallow: whether to leave out five blocks.
        layout: the layout of the images, NCHW or NHWC.

    """
    data = var("data", shape=data_shape, dtype=dtype)
    body = conv_block(data, "conv_block_1", int(32 * alpha), strides=(2, 2), layout=layout)
    blocks = (*_FIRST, *(_SHALLOW if is_shallow else _DEEP))
    for index, (before, after, downsample) in enumerate(blocks, 1):
        channels = (int(before * alpha), int(after * alpha))
        name = f"separable_conv_block_{index}"
        body = separable_conv_block(body, name, *channels, downsample=downsample, layout=layout, dtype=dtype)
    flat = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    fc = nn.bias_add(nn.dense(flat, var("fc_weight"), units=num_classes), var("fc_bias"))
    net = nn.softmax(fc)
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    layout: str = "NCHW",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
