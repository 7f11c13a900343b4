"""Gradients of convolutions and of pooling."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from apass.relay.ir.calls import attrs_of, call_op, tensor_type
from apass.relay.ir.expr import Call, Expr, const
from apass.relay.op.define.layout import convert_shape, parse_layout
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.convert import cast_like, zeros_like
from apass.relay.op.gradients.nn import multiply_axis
from apass.relay.op.gradients.support import static_shape
from apass.relay.op.index.gather import take
from apass.relay.op.nn.conv.conv import KERNEL_LAYOUTS, ConvAttrs
from apass.relay.op.nn.conv.transpose import TRANSPOSED_KERNEL_LAYOUTS, ConvTransposeAttrs
from apass.relay.op.nn.pool.adaptive import AdaptivePoolAttrs, bins_of, sizes_of
from apass.relay.op.nn.pool.global_pool import GlobalPool2DAttrs
from apass.relay.op.nn.pool.grad import avg_pool2d_grad, max_pool2d_grad
from apass.relay.op.nn.pool.pool import AvgPool1DAttrs, AvgPool2DAttrs, AvgPool3DAttrs, PoolAttrs, max_pool2d, slides_of
from apass.relay.op.nn.windows import DATA_LAYOUTS, both_sides, padding_of
from apass.relay.op.shape.axes import expand_dims, layout_transform, squeeze, transpose
from apass.relay.op.shape.reshape import reshape
from apass.relay.op.shape.slicing import strided_slice

__all__: list[str] = []


def _in_layout(expr: Expr, src: str, dst: str) -> Expr:
    return expr if src == dst else layout_transform(expr, src, dst)


def _shape_in(op: str, expr: Expr, src: str, dst: str) -> tuple[int, ...]:
    """Return the static shape that a typed tensor has in another layout."""
    shape = convert_shape(static_shape(op, expr), parse_layout(src), parse_layout(dst))
    return tuple(dim for dim in shape if isinstance(dim, int))


def _shortened(expr: Expr, lead: int, actual: Sequence[int], wanted: Sequence[int]) -> Expr:
    """Return a tensor whose last dimensions are cut to the wanted sizes."""
    if tuple(actual) == tuple(wanted):
        return expr
    axes = range(lead, lead + len(wanted))
    return strided_slice(expr, [0] * len(wanted), wanted, axes=axes)


class _Convolution:
    """A convolution of plain data with a plain weight, and its two gradients.

    The data has the layout NC..., the weight OI..., where I is the number of channels of a group.
    """

    def __init__(
        self,
        attrs: ConvAttrs | ConvTransposeAttrs,
        data_shape: Sequence[int],
        weight_shape: Sequence[int],
        out_shape: Sequence[int],
    ) -> None:
        self.rank = len(attrs.strides)
        self._attrs = attrs
        self._padding = padding_of(attrs.padding, self.rank)
        self._sides = both_sides(attrs.padding, self.rank)
        self._data_shape, self._weight_shape, self._out_shape = data_shape, weight_shape, out_shape

    def result(self, data: Expr, weight: Expr) -> Expr:
        """Return the convolution, cut to the shape of the result."""
        attrs = self._attrs
        out = self._call("", data, weight, attrs.strides, attrs.dilation)
        spans = [(size - 1) * gap + 1 for size, gap in zip(self._weight_shape[2:], attrs.dilation, strict=True)]
        counts = self._counts(spans, attrs.strides)
        return _shortened(out, 2, counts, self._out_shape[2:])

    def data_gradient(self, grad: Expr, weight: Expr) -> Expr:
        """Return the gradient of the data for the gradient of the result."""
        attrs = self._attrs
        axes = zip(
            self._data_shape[2:],
            self._out_shape[2:],
            attrs.strides,
            self._weight_shape[2:],
            attrs.dilation,
            self._sides,
            strict=True,
        )
        # The elements after the last window get no gradient.
        rest = tuple(
            length - ((count - 1) * stride + (size - 1) * gap + 1 - sum(sides))
            for length, count, stride, size, gap, sides in axes
        )
        layout = TRANSPOSED_KERNEL_LAYOUTS[self.rank].name
        options = {"output_padding": rest, "kernel_layout": layout}
        return self._call("_transpose", grad, weight, attrs.strides, attrs.dilation, **options)

    def weight_gradient(self, grad: Expr, data: Expr) -> Expr:
        """Return the gradient of the weight for the gradient of the result.

        It is the convolution of the data with the gradient, with the batch as channels.
        """
        attrs, groups, spatial = self._attrs, self._attrs.groups, range(3, 3 + self.rank)
        batch, channels, *lengths = self._data_shape
        depth = channels // groups
        split = reshape(data, (batch, groups, depth, *lengths))
        images = reshape(transpose(split, (2, 1, 0, *spatial)), (depth, groups * batch, *lengths))
        kernel = transpose(grad, (1, 0, *range(2, 2 + self.rank)))
        product = self._call("", images, kernel, attrs.dilation, attrs.strides)
        weight = transpose(product, (1, 0, *range(2, 2 + self.rank)))
        spans = [(count - 1) * stride + 1 for count, stride in zip(self._out_shape[2:], attrs.strides, strict=True)]
        return _shortened(weight, 2, self._counts(spans, attrs.dilation), self._weight_shape[2:])

    def _counts(self, spans: Sequence[int], strides: Sequence[int]) -> list[int]:
        axes = zip(self._data_shape[2:], spans, strides, self._sides, strict=True)
        return [(length + sum(sides) - span) // stride + 1 for length, span, stride, sides in axes]

    def _call(
        self, kind: str, data: Expr, weight: Expr, strides: Sequence[int], dilation: Sequence[int], **more: object
    ) -> Expr:
        return call_op(
            f"nn.conv{self.rank}d{kind}",
            data,
            weight,
            strides=tuple(strides),
            dilation=tuple(dilation),
            padding=self._padding,
            groups=self._attrs.groups,
            **more,
        )


def _conv(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs, (data, weight) = attrs_of(orig, ConvAttrs), orig.args
    op = f"nn.conv{len(attrs.strides)}d"
    plain, kernel = DATA_LAYOUTS[len(attrs.strides)].name, KERNEL_LAYOUTS[len(attrs.strides)].name
    out_layout = attrs.out_layout or attrs.data_layout
    data_shape = _shape_in(op, data, attrs.data_layout, plain)
    plain_weight_shape = _shape_in(op, weight, attrs.kernel_layout, kernel)
    out_shape = _shape_in(op, orig, out_layout, plain)
    # A depthwise weight may have its filters along both of its first axes.
    weight_shape = (out_shape[1], data_shape[1] // attrs.groups, *plain_weight_shape[2:])
    convolution = _Convolution(attrs, data_shape, weight_shape, out_shape)
    part = _in_layout(_in_dtype(grad, orig), out_layout, plain)
    slope = convolution.data_gradient(part, reshape(_in_layout(weight, attrs.kernel_layout, kernel), weight_shape))
    other = convolution.weight_gradient(part, _in_layout(data, attrs.data_layout, plain))
    return [
        _in_layout(slope, plain, attrs.data_layout),
        _in_layout(reshape(other, plain_weight_shape), kernel, attrs.kernel_layout),
    ]


def _conv_transpose(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs, (data, weight) = attrs_of(orig, ConvTransposeAttrs), orig.args
    op = f"nn.conv{len(attrs.strides)}d_transpose"
    plain, kernel = DATA_LAYOUTS[len(attrs.strides)].name, TRANSPOSED_KERNEL_LAYOUTS[len(attrs.strides)].name
    out_layout = attrs.out_layout or attrs.data_layout
    # The convolution whose transpose this is goes from the shape of the result to that of the data.
    convolution = _Convolution(
        attrs,
        _shape_in(op, orig, out_layout, plain),
        _shape_in(op, weight, attrs.kernel_layout, kernel),
        _shape_in(op, data, attrs.data_layout, plain),
    )
    part = _in_layout(_in_dtype(grad, orig), out_layout, plain)
    slope = convolution.result(part, _in_layout(weight, attrs.kernel_layout, kernel))
    other = convolution.weight_gradient(_in_layout(data, attrs.data_layout, plain), part)
    return [_in_layout(slope, plain, attrs.data_layout), _in_layout(other, kernel, attrs.kernel_layout)]


def _in_dtype(grad: Expr, orig: Call) -> Expr:
    """Return the gradient in the element type of the first argument."""
    data = orig.args[0]
    return grad if tensor_type(orig).dtype == tensor_type(data).dtype else cast_like(grad, data)


for _rank in (1, 2, 3):
    register_gradient(f"nn.conv{_rank}d", _conv)
    register_gradient(f"nn.conv{_rank}d_transpose", _conv_transpose)


@register_gradient("nn.max_pool2d")
def _max_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [call_op("nn.max_pool2d_grad", grad, orig.args[0], **dict(attrs_of(orig, PoolAttrs).items()))]


@register_gradient("nn.avg_pool2d")
def _avg_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [call_op("nn.avg_pool2d_grad", grad, orig.args[0], **dict(attrs_of(orig, PoolAttrs).items()))]


@register_gradient("nn.avg_pool2d_grad")
def _avg_pool2d_grad(orig: Call, grad: Expr) -> Sequence[Expr]:
    # The operator is linear in the gradient that it gets, and independent of the values of the data.
    data = orig.args[1]
    return [call_op("nn.avg_pool2d", grad, **dict(attrs_of(orig, AvgPool2DAttrs).items())), zeros_like(data)]


@register_gradient("nn.max_pool1d")
def _max_pool1d(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, PoolAttrs)
    (low, high) = padding_of(attrs.padding, 1)
    images, part = (
        expand_dims(_in_layout(expr, layout, "NCW"), 2)
        for expr, layout in ((data, attrs.layout), (grad, attrs.out_layout or attrs.layout))
    )
    slope = max_pool2d_grad(
        part,
        images,
        pool_size=(1, *attrs.pool_size),
        strides=(1, *attrs.strides),
        padding=(0, low, 0, high),
        ceil_mode=attrs.ceil_mode,
        dilation=(1, *attrs.dilation),
    )
    return [_in_layout(squeeze(slope, [2]), "NCW", attrs.layout)]


@register_gradient("nn.max_pool3d")
def _max_pool3d(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, PoolAttrs)
    batch, channels, depth, *size = _shape_in("nn.max_pool3d", data, attrs.layout, "NCDHW")
    new_depth, *new_size = _shape_in("nn.max_pool3d", orig, attrs.out_layout or attrs.layout, "NCDHW")[2:]
    (front, top, left, back, bottom, right) = padding_of(attrs.padding, 3)
    # The maximum of a window is that of the maxima of its images.
    outer, inner = (
        {
            "pool_size": sizes(attrs.pool_size),
            "strides": sizes(attrs.strides),
            "dilation": sizes(attrs.dilation),
            "padding": padding,
            "ceil_mode": attrs.ceil_mode,
        }
        for sizes, padding in ((_depth_alone, (front, 0, back, 0)), (_without_depth, (top, left, bottom, right)))
    )
    images = reshape(_in_layout(data, attrs.layout, "NCDHW"), (batch, channels * depth, *size))
    maxima = reshape(call_op("nn.max_pool2d", images, **inner), (batch, channels, depth, prod(new_size)))
    part = _in_layout(grad, attrs.out_layout or attrs.layout, "NCDHW")
    columns = reshape(part, (batch, channels, new_depth, prod(new_size)))
    slope = call_op("nn.max_pool2d_grad", columns, maxima, **outer)
    slope = call_op("nn.max_pool2d_grad", reshape(slope, (batch, channels * depth, *new_size)), images, **inner)
    return [_in_layout(reshape(slope, (batch, channels, depth, *size)), "NCDHW", attrs.layout)]


def _depth_alone(sizes: Sequence[int]) -> tuple[int, ...]:
    return (sizes[0], 1)


def _without_depth(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sizes[1:])


def _image_size(orig: Call) -> tuple[int, ...]:
    layout = attrs_of(orig, GlobalPool2DAttrs).layout
    return _shape_in("global pooling", orig.args[0], layout, "NCHW")[2:]


@register_gradient("nn.global_avg_pool2d")
def _global_avg_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, GlobalPool2DAttrs)
    size = _image_size(orig)
    return [avg_pool2d_grad(grad, data, size, layout=attrs.layout, out_layout=attrs.out_layout)]


@register_gradient("nn.global_max_pool2d")
def _global_max_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, GlobalPool2DAttrs)
    size = _image_size(orig)
    return [max_pool2d_grad(grad, data, size, layout=attrs.layout, out_layout=attrs.out_layout)]


def _averaged(orig: Call, grad: Expr, layouts: tuple[str, str], matrices: Sequence[NDArray[np.float64]]) -> Expr:
    """Return the gradient of means along the spatial dimensions.

    Each matrix has a row of weights for each window along its dimension.
    """
    plain, data = DATA_LAYOUTS[len(matrices)].name, orig.args[0]
    slope = _in_layout(grad, layouts[1] or layouts[0], plain)
    for axis, matrix in enumerate(matrices, 2):
        slope = multiply_axis(slope, len(matrices) + 2, axis, matrix.T.tolist(), data)
    return _in_layout(slope, plain, layouts[0])


def _avg_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = orig.attrs
    assert isinstance(attrs, AvgPool1DAttrs | AvgPool3DAttrs), "the operator is a mean of windows"
    plain = DATA_LAYOUTS[len(attrs.pool_size)].name
    lengths = _shape_in("average pooling", orig.args[0], attrs.layout, plain)[2:]
    matrices: list[NDArray[np.float64]] = []
    for length, slide in zip(lengths, slides_of(lengths, attrs), strict=True):
        matrix = np.zeros((slide.count, sum((length, *slide.added(length)))))
        for tap in range(slide.size):
            matrix[np.arange(slide.count), np.arange(matrix.shape[1])[slide.positions(tap)]] = 1
        count = np.maximum(slide.covered(length, include_pad=attrs.count_include_pad), 1)
        matrices.append(matrix[:, slide.sides[0] : slide.sides[0] + length] / count[:, np.newaxis])
    return [_averaged(orig, grad, (attrs.layout, attrs.out_layout), matrices)]


def _adaptive_avg_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, AdaptivePoolAttrs)
    plain = DATA_LAYOUTS[len(parse_layout(attrs.layout).primal) - 2].name
    lengths = _shape_in("adaptive pooling", orig.args[0], attrs.layout, plain)[2:]
    sizes = [size for size in sizes_of(lengths, attrs) if isinstance(size, int)]
    matrices: list[NDArray[np.float64]] = []
    for length, size in zip(lengths, sizes, strict=True):
        matrix = np.zeros((size, length))
        for row, part in zip(matrix, bins_of(length, size), strict=True):
            row[part] = 1 / (part.stop - part.start)
        matrices.append(matrix)
    return [_averaged(orig, grad, (attrs.layout, attrs.out_layout), matrices)]


def _adaptive_max_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, AdaptivePoolAttrs)
    plain = DATA_LAYOUTS[len(parse_layout(attrs.layout).primal) - 2].name
    shape = _shape_in("adaptive pooling", data, attrs.layout, plain)
    sizes = [size for size in sizes_of(shape[2:], attrs) if isinstance(size, int)]
    images = _in_layout(data, attrs.layout, plain)
    steps: list[Callable[[Expr], Expr]] = []
    for axis, size in enumerate(sizes, 2):
        step = _AxisOfBins(images, shape, axis, size)
        shape = (*shape[:axis], size, *shape[axis + 1 :])
        images = step.maxima(shape)
        steps.append(partial(step.gradient, like=data))
    slope = _in_layout(grad, attrs.out_layout or attrs.layout, plain)
    for gradient in reversed(steps):
        slope = gradient(slope)
    return [_in_layout(slope, plain, attrs.layout)]


class _AxisOfBins:
    """The maxima of bins along one axis, and their gradient."""

    def __init__(self, data: Expr, shape: Sequence[int], axis: int, count: int) -> None:
        self._shape, self._axis, self._count = shape, axis, count
        bins = bins_of(shape[axis], count)
        self._size = max(part.stop - part.start for part in bins)
        # A smaller bin repeats its last element, which does not change its maximum.
        self._rows = np.array([min(part.start + tap, part.stop - 1) for part in bins for tap in range(self._size)])
        self._columns = self._as_columns(take(data, const(self._rows), axis), len(self._rows))

    def maxima(self, shape: Sequence[int]) -> Expr:
        """Return the maxima in their shape."""
        return reshape(max_pool2d(self._columns, (self._size, 1), (self._size, 1)), shape)

    def gradient(self, grad: Expr, like: Expr) -> Expr:
        """Return the gradient of the data for that of the maxima.

        `like` has its element type.
        """
        columns = self._as_columns(grad, self._count)
        slope = max_pool2d_grad(columns, self._columns, (self._size, 1), (self._size, 1))
        axis, shape = self._axis, self._shape
        whole = reshape(slope, (*shape[:axis], len(self._rows), *shape[axis + 1 :]))
        matrix = np.eye(shape[axis])[self._rows]
        return multiply_axis(whole, len(shape), axis, matrix.T.tolist(), like)

    def _as_columns(self, expr: Expr, length: int) -> Expr:
        shape, axis = self._shape, self._axis
        return reshape(expr, (prod(shape[:axis]), 1, length, prod(shape[axis + 1 :])))


register_gradient("nn.avg_pool1d", _avg_pool)
register_gradient("nn.avg_pool3d", _avg_pool)
for _rank in (1, 2, 3):
    register_gradient(f"nn.adaptive_avg_pool{_rank}d", _adaptive_avg_pool)
    register_gradient(f"nn.adaptive_max_pool{_rank}d", _adaptive_max_pool)


for _name in ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"):
    register_gradient(_name, _conv)
