"""Gradients of convolutions and of their transposes."""

from collections.abc import Sequence

from apass.relay.ir.calls import attrs_of, call_op
from apass.relay.ir.expr import Call, Expr
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.gradients.support import in_dtype, in_layout, shape_in
from apass.relay.op.nn.conv.conv import KERNEL_LAYOUTS, ConvAttrs
from apass.relay.op.nn.conv.transpose import TRANSPOSED_KERNEL_LAYOUTS, ConvTransposeAttrs
from apass.relay.op.nn.windows import DATA_LAYOUTS, both_sides, padding_of
from apass.relay.op.shape.axes import transpose
from apass.relay.op.shape.reshape import reshape
from apass.relay.op.shape.slicing import strided_slice

__all__: list[str] = []


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
    data_shape = shape_in(op, data, attrs.data_layout, plain)
    plain_weight_shape = shape_in(op, weight, attrs.kernel_layout, kernel)
    out_shape = shape_in(op, orig, out_layout, plain)
    # A depthwise weight may have its filters along both of its first axes.
    weight_shape = (out_shape[1], data_shape[1] // attrs.groups, *plain_weight_shape[2:])
    convolution = _Convolution(attrs, data_shape, weight_shape, out_shape)
    part = in_layout(in_dtype(grad, orig), out_layout, plain)
    slope = convolution.data_gradient(part, reshape(in_layout(weight, attrs.kernel_layout, kernel), weight_shape))
    other = convolution.weight_gradient(part, in_layout(data, attrs.data_layout, plain))
    return [
        in_layout(slope, plain, attrs.data_layout),
        in_layout(reshape(other, plain_weight_shape), kernel, attrs.kernel_layout),
    ]


def _conv_transpose(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs, (data, weight) = attrs_of(orig, ConvTransposeAttrs), orig.args
    op = f"nn.conv{len(attrs.strides)}d_transpose"
    plain, kernel = DATA_LAYOUTS[len(attrs.strides)].name, TRANSPOSED_KERNEL_LAYOUTS[len(attrs.strides)].name
    out_layout = attrs.out_layout or attrs.data_layout
    # The convolution whose transpose this is goes from the shape of the result to that of the data.
    convolution = _Convolution(
        attrs,
        shape_in(op, orig, out_layout, plain),
        shape_in(op, weight, attrs.kernel_layout, kernel),
        shape_in(op, data, attrs.data_layout, plain),
    )
    part = in_layout(in_dtype(grad, orig), out_layout, plain)
    slope = convolution.result(part, in_layout(weight, attrs.kernel_layout, kernel))
    other = convolution.weight_gradient(in_layout(data, attrs.data_layout, plain), part)
    return [in_layout(slope, plain, attrs.data_layout), in_layout(other, kernel, attrs.kernel_layout)]


for _rank in (1, 2, 3):
    register_gradient(f"nn.conv{_rank}d", _conv)
    register_gradient(f"nn.conv{_rank}d_transpose", _conv_transpose)
for _name in ("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc"):
    register_gradient(_name, _conv)
