"""Gradients of operators that compute each axis by itself: resizing and padding.

Such an operator is linear, so along an axis it is a product with a matrix. The kernel of the operator computes the
matrix from the unit vectors, and the gradient multiplies with it the other way round.
"""

from collections.abc import Sequence

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import attrs_of, tensor_type
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.convert import cast_like
from apass.relay.op.gradients.support import multiply_axis, static_shape
from apass.relay.op.nn.pad import MirrorPadAttrs, PadAttrs
from apass.relay.op.nn.windows import DATA_LAYOUTS

__all__ = ["pad_gradient"]


def pad_gradient(orig: Call, grad: Expr, widths: Sequence[Sequence[int]], *rest: Array) -> Expr:
    """Return the gradient of the data of a padding that repeats elements.

    Parameters:
        orig: the call of nn.pad or nn.mirror_pad.
        grad: the gradient of the result.
        widths: the numbers of elements added before and after each axis.
        rest: the other arguments of the kernel.

    """
    assert isinstance(orig.op, Op)
    assert isinstance(orig.attrs, PadAttrs | MirrorPadAttrs)
    assert orig.op.compute is not None
    shape, dtype = static_shape(orig.op.name, orig.args[0]), tensor_type(orig.args[0]).dtype
    for axis, (length, pair) in enumerate(zip(shape, widths, strict=True)):
        attrs = orig.attrs.replaced(pad_width=((0, 0), tuple(pair)))
        padded = orig.op.compute(attrs, np.eye(length), *rest)
        grad = multiply_axis(grad, axis, len(shape), np.asarray(padded, "float64"), dtype)
    return grad


@register_gradient("nn.mirror_pad")
def _mirror_pad(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [pad_gradient(orig, grad, attrs_of(orig, MirrorPadAttrs).pad_width)]


def _resize(orig: Call, grad: Expr) -> Sequence[Expr]:
    assert isinstance(orig.op, Op)
    assert isinstance(orig.attrs, Attrs)
    assert orig.op.compute is not None
    data = orig.args[0]
    layout, dtype = parse_layout(orig.attrs.get_str("layout")), tensor_type(data).dtype
    shape = static_shape(orig.op.name, data)
    plain = DATA_LAYOUTS[sum(letter in "DHW" for letter, _ in layout.axes)]
    attrs = orig.attrs.replaced(layout=plain.name)
    result = grad if tensor_type(orig).dtype == dtype else cast_like(grad, data)
    spatial = [letter for letter, _ in plain.axes[2:]]
    lengths = [shape[layout.index(letter)] for letter in spatial]
    for number, letter in enumerate(spatial):
        length = lengths[number]
        # The batch counts the unit vectors of this axis. Along the other axes, the images are constant.
        view = [1] * len(spatial)
        view[number] = length
        images = np.broadcast_to(np.eye(length).reshape(length, 1, *view), (length, 1, *lengths))
        resized = np.asarray(orig.op.compute(attrs, images), "float64")
        first = tuple(slice(None) if other == number else 0 for other in range(len(spatial)))
        matrix = resized[(slice(None), 0, *first)]
        result = multiply_axis(result, layout.index(letter), len(shape), matrix, dtype)
    return [result]


for _name in ("nn.upsampling", "nn.upsampling3d", "image.resize1d", "image.resize2d", "image.resize3d"):
    register_gradient(_name, _resize)
