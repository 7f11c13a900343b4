"""ResNet with 18 to 269 layers and identity mappings. He et al., arXiv 1603.05027."""

from collections.abc import Sequence

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["get_net", "get_workload", "residual_unit", "resnet"]

_EPSILON = 2e-5
_UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}
"""Units of each stage, by the number of layers, for images of more than 28 pixels."""


def residual_unit(
    data: Expr,
    num_filter: int,
    stride: tuple[int, int],
    dim_match: bool,
    name: str,
    bottle_neck: bool = True,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
) -> Call:
    """Return a residual unit: activated convolutions and a shortcut.

    Parameters:
        data: the input.
        num_filter: the number of output channels.
        stride: the stride of the first convolution.
        dim_match: whether the shortcut is the input itself; if not, it is a 1 by 1 convolution to the new shape.
        name: the prefix of the names of the variables.
        bottle_neck: whether the unit has three convolutions, the first two with a quarter of the channels.
        data_layout: the layout of the data.
        kernel_layout: the layout of the weights.

    """
    narrow = int(num_filter * 0.25)
    plan = [(narrow, 1), (narrow, 3), (num_filter, 1)] if bottle_neck else [(num_filter, 3), (num_filter, 3)]
    body, first = data, data
    for index, (channels, window) in enumerate(plan, 1):
        body = _activated(body, f"{name}_bn{index}", data_layout)
        first = body if index == 1 else first
        body = layers.conv2d(
            body,
            channels=channels,
            kernel_size=(window, window),
            strides=stride if index == 1 else (1, 1),
            padding=(window // 2, window // 2),
            name=f"{name}_conv{index}",
            data_layout=data_layout,
            kernel_layout=kernel_layout,
        )
    if dim_match:
        return add(body, data)
    shortcut = layers.conv2d(
        first,
        channels=num_filter,
        kernel_size=(1, 1),
        strides=stride,
        name=f"{name}_sc",
        data_layout=data_layout,
        kernel_layout=kernel_layout,
    )
    return add(body, shortcut)


def _activated(data: Expr, name: str, layout: str) -> Call:
    return nn.relu(layers.batch_norm_infer(data, epsilon=_EPSILON, axis=layout.index("C"), name=name))


def resnet(
    units: Sequence[int],
    num_stages: int,
    filter_list: Sequence[int],
    num_classes: int,
    data_shape: tuple[int, ...],
    bottle_neck: bool = True,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return a residual network.

    Parameters:
        units: the number of units in each stage.
        num_stages: the number of stages.
        filter_list: the number of channels before the first stage, then in each stage.
        num_classes: the number of classes.
        data_shape: the shape of a batch of images.
        bottle_neck: whether units have three convolutions.
        layout: the layout of the images, NCHW or NHWC.
        dtype: the element type of the images.

    Raises:
        ValueError: if the number of stages is not that of `units`.

    """
    if len(units) != num_stages:
        raise ValueError(f"units must have num_stages ({num_stages}) elements, got {tuple(units)}")
    kernel_layout = "OIHW" if layout == "NCHW" else "HWIO"
    body = _head(var("data", shape=data_shape, dtype=dtype), filter_list[0], data_shape, layout, kernel_layout)
    for stage, count in enumerate(units, 1):
        for unit in range(1, count + 1):
            side = 2 if unit == 1 and stage > 1 else 1
            name, layouts = f"stage{stage}_unit{unit}", (layout, kernel_layout)
            body = residual_unit(body, filter_list[stage], (side, side), unit > 1, name, bottle_neck, *layouts)
    pooled = nn.global_avg_pool2d(_activated(body, "bn1", layout), layout=layout)
    net = nn.softmax(layers.dense_add_bias(nn.batch_flatten(pooled), units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


def _head(data: Expr, filters: int, shape: tuple[int, ...], layout: str, kernel_layout: str) -> Expr:
    """Return the layers before the first stage; they shrink large images."""
    large = shape[layout.index("H")] > 32
    window = 7 if large else 3
    normalized = layers.batch_norm_infer(data, epsilon=_EPSILON, axis=layout.index("C"), scale=False, name="bn_data")
    body = layers.conv2d(
        normalized,
        channels=filters,
        kernel_size=(window, window),
        strides=(2, 2) if large else (1, 1),
        padding=(window // 2, window // 2),
        name="conv0",
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    if not large:
        return body
    active = _activated(body, "bn0", layout)
    return nn.max_pool2d(active, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: object,
) -> Function:
    """Return the network for a number of layers and an image shape.

    `kwargs` have no effect, as in TVM.

    Raises:
        ValueError: if there is no network of that number of layers.

    """
    height = image_shape[layout.index("H") - 1]
    units, filters, bottle_neck = _small(num_layers) if height <= 28 else _large(num_layers)
    shape = (batch_size, *image_shape)
    return resnet(units, len(units), filters, num_classes, shape, bottle_neck, layout, dtype)


def _small(num_layers: int) -> tuple[Sequence[int], Sequence[int], bool]:
    if num_layers >= 164 and (num_layers - 2) % 9 == 0:
        return [(num_layers - 2) // 9] * 3, (16, 64, 128, 256), True
    if num_layers < 164 and (num_layers - 2) % 6 == 0:
        return [(num_layers - 2) // 6] * 3, (16, 16, 32, 64), False
    raise ValueError(
        f"for images of up to 28 pixels, num_layers must be 6n+2 below 164 or 9n+2 from 164, got {num_layers}"
    )


def _large(num_layers: int) -> tuple[Sequence[int], Sequence[int], bool]:
    if num_layers not in _UNITS:
        raise ValueError(f"num_layers must be one of {', '.join(map(str, _UNITS))}, got {num_layers}")
    bottle_neck = num_layers >= 50
    return _UNITS[num_layers], (64, 256, 512, 1024, 2048) if bottle_neck else (64, 64, 128, 256, 512), bottle_neck


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
    **kwargs: object,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters.

    Raises:
        ValueError: if there is no network of that number of layers.

    """
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
