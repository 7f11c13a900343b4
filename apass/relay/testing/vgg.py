"""VGG: stacks of 3 by 3 convolutions. Simonyan and Zisserman, arXiv 1409.1556."""

from collections.abc import Sequence

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.testing import layers as wrapper
from apass.relay.testing.init import create_workload

__all__ = ["get_classifier", "get_feature", "get_net", "get_workload"]

_STACKS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each stack, by the number of layers."""
_FILTERS = (64, 128, 256, 512, 512)


def get_feature(internal_layer: Expr, layers: Sequence[int], filters: Sequence[int], batch_norm: bool = False) -> Expr:
    """Return stacks of convolutions, each followed by max pooling."""
    for stack, (count, channels) in enumerate(zip(layers, filters, strict=True), 1):
        for index in range(1, count + 1):
            suffix = f"{stack}_{index}"
            conv = wrapper.conv2d(
                internal_layer, kernel_size=(3, 3), padding=(1, 1), channels=channels, name=f"conv{suffix}"
            )
            biased = nn.bias_add(conv, var(f"conv{suffix}_bias"))
            internal_layer = nn.relu(wrapper.batch_norm_infer(biased, name=f"bn{suffix}") if batch_norm else biased)
        internal_layer = nn.max_pool2d(internal_layer, pool_size=(2, 2), strides=(2, 2))
    return internal_layer


def get_classifier(input_data: Expr, num_classes: int) -> Call:
    """Return three dense layers, with dropout after the first two."""
    net: Expr = nn.batch_flatten(input_data)
    for name in ("fc6", "fc7"):
        net = nn.dropout(nn.relu(wrapper.dense_add_bias(net, units=4096, name=name)), rate=0.5)
    return wrapper.dense_add_bias(net, units=num_classes, name="fc8")


def get_net(
    batch_size: int,
    image_shape: tuple[int, ...],
    num_classes: int,
    dtype: str,
    num_layers: int = 11,
    batch_norm: bool = False,
) -> Function:
    """Return the network with 11, 13, 16 or 19 layers.

    Raises:
        ValueError: if the number of layers is another one.

    """
    if num_layers not in _STACKS:
        raise ValueError(f"num_layers must be one of {', '.join(map(str, _STACKS))}, got {num_layers}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    net = nn.softmax(get_classifier(get_feature(data, _STACKS[num_layers], _FILTERS, batch_norm), num_classes))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
    num_layers: int = 11,
    batch_norm: bool = False,
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the network as a typed module, and its parameters.

    Raises:
        ValueError: if the number of layers is another one.

    """
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
