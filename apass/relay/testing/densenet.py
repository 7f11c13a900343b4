"""DenseNet with 121 to 201 layers, with the structure of TVM 0.8.

Huang et al., arXiv 1608.06993.
"""

from collections.abc import Sequence

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.op.shape.join import concatenate
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["get_workload"]

# The 69 channels of DenseNet-169 (64 in the paper) are those of TVM 0.8.
_SPECS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (69, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""By number of layers: channels of the first convolution, growth rate, layers of each block."""
_BN_SIZE = 4
"""Channels of the bottleneck of a layer, as a multiple of the growth rate."""


def _net(
    init_features: int, growth_rate: int, blocks: Sequence[int], data_shape: tuple[int, ...], dtype: str, classes: int
) -> Function:
    data = var("data", shape=data_shape, dtype=dtype)
    conv = layers.conv2d(data, channels=init_features, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1")
    net = nn.max_pool2d(_activated(conv, "batch1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    features = init_features
    for index, count in enumerate(blocks):
        net = _block(net, count, growth_rate, index)
        features += count * growth_rate
        if index < len(blocks) - 1:
            features //= 2
            net = _transition(net, features, index)
    pooled = nn.avg_pool2d(_activated(net, "batch2"), pool_size=(7, 7))
    out = layers.dense_add_bias(nn.batch_flatten(pooled), units=classes, name="dense")
    return Function(free_vars(out), out)


def _activated(data: Expr, name: str) -> Call:
    return nn.relu(layers.batch_norm_infer(data, name=name))


def _block(data: Expr, count: int, growth_rate: int, block: int) -> Call:
    """Return the concatenated results of the layers of a block."""
    # As in TVM 0.8, a layer gets the result of the layer before; in the paper it gets those of all layers before.
    results: list[Expr] = [data]
    for index in range(count):
        results.append(_layer(results[-1], growth_rate, f"{block}_{index}"))
    return concatenate(results[1:], 1)


def _layer(data: Expr, growth_rate: int, index: str) -> Call:
    wide = layers.conv2d(
        _activated(data, f"batch_1_{index}"),
        channels=_BN_SIZE * growth_rate,
        kernel_size=(1, 1),
        name=f"conv2d_1_{index}",
    )
    active, name = _activated(wide, f"batch_2_{index}"), f"conv2d_2_{index}"
    return layers.conv2d(active, channels=growth_rate, kernel_size=(3, 3), padding=(1, 1), name=name)


def _transition(data: Expr, features: int, index: int) -> Call:
    active, name = _activated(data, f"batch_t_{index}"), f"conv_t_{index}"
    conv = layers.conv2d(active, channels=features, kernel_size=(1, 1), name=name)
    return nn.avg_pool2d(conv, pool_size=(2, 2), strides=(2, 2))


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return DenseNet with 121, 161, 169 or 201 layers, typed, and its parameters.

    Raises:
        ValueError: if the number of layers is another one.

    """
    if densenet_size not in _SPECS:
        raise ValueError(f"densenet_size must be one of {', '.join(map(str, _SPECS))}, got {densenet_size}")
    return create_workload(_net(*_SPECS[densenet_size], (batch_size, *image_shape), dtype, classes))
