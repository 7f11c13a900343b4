"""The generator of DCGAN: transposed convolutions from a code to an image.

Radford et al., arXiv 1511.06434.
"""

from apass.relay.ir.expr import Call, Expr, var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.op import nn
from apass.relay.op.elementwise.trigonometry import tanh
from apass.relay.op.shape.reshape import reshape
from apass.relay.testing import layers
from apass.relay.testing.init import create_workload

__all__ = ["deconv2d", "deconv2d_bn_relu", "get_net", "get_workload"]


def deconv2d(
    data: Expr,
    ishape: tuple[int, ...],
    oshape: tuple[int, ...],
    kshape: tuple[int, int],
    layout: str,
    name: str,
    stride: tuple[int, int] = (2, 2),
) -> Call:
    """Return a transposed convolution with an output of shape `oshape`.

    `ishape` is the shape of the input, and has no effect, as in TVM. Both shapes are channels first.

    Raises:
        ValueError: if the layout is neither NCHW nor NHWC.

    """
    kernel_layouts = {"NCHW": "IOHW", "NHWC": "HWOI"}
    if layout not in kernel_layouts:
        raise ValueError(f"layout must be one of {', '.join(kernel_layouts)}, got {layout!r}")
    padding = [(size - 1) // 2 for size in kshape]
    dims = zip(oshape[-2:], padding, kshape, stride, strict=True)
    # A strided convolution maps several input lengths to one output length: the rest selects one of them.
    extra = [(length + 2 * side - size) % step for length, side, size, step in dims]
    return layers.conv2d_transpose(
        data,
        kernel_size=kshape,
        strides=stride,
        channels=oshape[0],
        padding=padding,
        output_padding=extra,
        data_layout=layout,
        kernel_layout=kernel_layouts[layout],
        name=name,
    )


def deconv2d_bn_relu(
    data: Expr,
    prefix: str,
    *,
    ishape: tuple[int, ...],
    oshape: tuple[int, ...],
    kshape: tuple[int, int],
    layout: str = "NCHW",
    stride: tuple[int, int] = (2, 2),
) -> Call:
    """Return `deconv2d` with batch normalization and ReLU."""
    image = deconv2d(data, ishape, oshape, kshape, layout, f"{prefix}_deconv", stride)
    normalized = layers.batch_norm_infer(
        image, epsilon=1e-5 + 1e-12, scale=False, axis=layout.index("C"), name=f"{prefix}_batch_norm"
    )
    return nn.relu(normalized)


def get_net(
    batch_size: int,
    random_len: int = 100,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    code: Expr | None = None,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """Return the generator of images of 64 by 64 pixels.

    `code` is the input, by default the variable `data`.

    Raises:
        ValueError: if the images are of another size, or the layout is neither NCHW nor NHWC.

    """
    if oshape[-2:] != (64, 64):
        raise ValueError(f"images must be of 64 by 64 pixels, got {oshape[-2]} by {oshape[-1]}")
    start = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    wide = nn.relu(nn.dense(start, var("dense_weight"), units=4 * 4 * ngf * 8))
    net = reshape(wide, (-1, ngf * 8, 4, 4) if layout == "NCHW" else (-1, 4, 4, ngf * 8))
    for index, factor in enumerate((4, 2, 1)):
        side = 8 << index
        before, after = (ngf * factor * 2, side // 2, side // 2), (ngf * factor, side, side)
        net = deconv2d_bn_relu(net, f"g{index + 2}", ishape=before, oshape=after, kshape=(4, 4), layout=layout)
    net = tanh(deconv2d(net, (ngf, 32, 32), oshape[-3:], (4, 4), layout, "g5_deconv"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    oshape: tuple[int, ...] = (3, 64, 64),
    ngf: int = 128,
    random_len: int = 100,
    layout: str = "NCHW",
    dtype: str = "float32",
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the generator as a typed module, and its parameters.

    Raises:
        ValueError: as `get_net`.

    """
    return create_workload(get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype))
