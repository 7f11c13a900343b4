"""Gradients of pooling over images: nn.max_pool2d_grad and nn.avg_pool2d_grad."""

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.pool.kernel import Slide, lowest, padded, summable
from apass.relay.op.nn.pool.pool import AvgPool2DAttrs, MaxPool2DAttrs, pooled_type, slides_of
from apass.relay.op.nn.relations import must_fit, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS, ints, padding_of, sliding

__all__ = ["avg_pool2d_grad", "max_pool2d_grad"]


def _define(name: str, attrs_type: type[MaxPool2DAttrs], compute: Compute, statistic: str) -> Op:
    def relation(types: Sequence[Type], attrs: MaxPool2DAttrs) -> Sequence[Type | None] | None:
        out_grad, data, _ = tensors(name, types)
        if data is None:
            return None
        return [must_fit(name, "out_grad", out_grad, pooled_type(name, 2, data, attrs)), None, data]

    return register_op(
        name,
        arguments=("out_grad", "data"),
        attrs_type=attrs_type,
        relation=relation,
        compute=compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        level=2,
        description=f"The gradient of the {statistic} of each window over 2 spatial dimensions.",
    )


def _max_grad(attrs: MaxPool2DAttrs, out_grad: Array, data: Array) -> Array:
    grad, images, slides = _plain(attrs, out_grad, data)
    whole = images
    for axis, slide in enumerate(slides, 2):
        whole = padded(whole, axis, *slide.added(images.shape[axis]), lowest(data.dtype))
    windows = sliding(
        whole,
        [slide.size for slide in slides],
        [slide.stride for slide in slides],
        [slide.dilation for slide in slides],
    )
    sizes = tuple(slide.size for slide in slides)
    # Of several equal elements, the first one receives the gradient, as in TVM.
    flat: Array = windows.reshape(*images.shape[:2], prod(sizes), *grad.shape[2:])
    chosen: NDArray[np.int64] = np.argmax(flat, axis=2)
    taps: Sequence[NDArray[np.int64]] = np.unravel_index(chosen, sizes)
    indices: tuple[NDArray[np.int64], ...] = np.indices(grad.shape, sparse=True)
    axes = zip(taps, indices[2:], slides, strict=True)
    positions = [tap * slide.dilation + count * slide.stride for tap, count, slide in axes]
    out = np.zeros(whole.shape, grad.dtype)
    np.add.at(out, (*indices[:2], *positions), grad)
    return _in_layout(attrs, _inner(out, images.shape, slides))


def _avg_grad(attrs: AvgPool2DAttrs, out_grad: Array, data: Array) -> Array:
    grad, images, slides = _plain(attrs, out_grad, data)
    out = grad.astype(summable(str(grad.dtype)), copy=False)
    for axis, slide in enumerate(slides, 2):
        count = slide.covered(images.shape[axis], include_pad=attrs.count_include_pad)
        shape = [-1 if dim == axis else 1 for dim in range(out.ndim)]
        out = _spread(np.divide(out, np.maximum(count, 1).reshape(shape)), axis, slide, images.shape[axis])
    return _in_layout(attrs, _inner(out, images.shape, slides).astype(data.dtype))


def _plain(attrs: MaxPool2DAttrs, out_grad: Array, data: Array) -> tuple[Array, Array, list[Slide]]:
    """Return the gradient and the data in the plain layout, and the windows."""
    plain, src = DATA_LAYOUTS[2], parse_layout(attrs.layout)
    images = convert_array(data, src, plain)
    grad = convert_array(out_grad, parse_layout(attrs.out_layout) if attrs.out_layout else src, plain)
    return grad, images, slides_of(images.shape[2:], attrs)


def _spread(data: Array, axis: int, slide: Slide, length: int) -> Array:
    """Return for each element of a padded dimension the sum over its windows."""
    lead, shape = (slice(None),) * axis, list(data.shape)
    shape[axis] = length + sum(slide.added(length))
    out: Array = np.zeros(shape, data.dtype)
    for tap in range(slide.size):
        target = out[(*lead, slide.positions(tap))]
        np.add(target, data, out=target)
    return out


def _inner(data: Array, shape: Sequence[int], slides: Sequence[Slide]) -> Array:
    """Return the data without the padding of its spatial dimensions."""
    kept = [slice(slide.sides[0], slide.sides[0] + size) for slide, size in zip(slides, shape[2:], strict=True)]
    return data[(slice(None), slice(None), *kept)]


def _in_layout(attrs: MaxPool2DAttrs, images: Array) -> Array:
    return convert_array(images, DATA_LAYOUTS[2], parse_layout(attrs.layout))


_MAX_POOL2D_GRAD = _define("nn.max_pool2d_grad", MaxPool2DAttrs, _max_grad, "maximum")
_AVG_POOL2D_GRAD = _define("nn.avg_pool2d_grad", AvgPool2DAttrs, _avg_grad, "mean")


def max_pool2d_grad(
    out_grad: Expr,
    data: Expr,
    pool_size: int | Iterable[int] = (1, 1),
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    dilation: int | Iterable[int] = (1, 1),
) -> Call:
    """Return the gradient of `max_pool2d` for the gradient of its result.

    The first of the greatest elements of a window receives the gradient of the window. The other parameters are those
    of `max_pool2d`; TVM has no `dilation` here.

    Raises:
        ValueError: if `padding` has another number of sides than 1, 2 or 4.

    """
    attrs = MaxPool2DAttrs(
        pool_size=ints(pool_size, 2),
        strides=ints(strides, 2),
        dilation=ints(dilation, 2),
        padding=padding_of(padding, 2),
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
    )
    return Call(_MAX_POOL2D_GRAD, (out_grad, data), attrs)


def avg_pool2d_grad(
    out_grad: Expr,
    data: Expr,
    pool_size: int | Iterable[int] = (1, 1),
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    dilation: int | Iterable[int] = (1, 1),
) -> Call:
    """Return the gradient of `avg_pool2d` for the gradient of its result.

    The other parameters are those of `avg_pool2d`; TVM has no `dilation` here.

    Raises:
        ValueError: if `padding` has another number of sides than 1, 2 or 4.

    """
    attrs = AvgPool2DAttrs(
        pool_size=ints(pool_size, 2),
        strides=ints(strides, 2),
        dilation=ints(dilation, 2),
        padding=padding_of(padding, 2),
        layout=layout,
        out_layout=out_layout,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )
    return Call(_AVG_POOL2D_GRAD, (out_grad, data), attrs)
