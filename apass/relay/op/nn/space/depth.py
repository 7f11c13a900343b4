"""nn.depth_to_space and its inverse nn.space_to_depth."""

from collections.abc import Sequence
from dataclasses import dataclass

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.dims import product
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import layout_like, must_divide, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS

__all__ = ["SubPixelAttrs", "depth_to_space", "space_to_depth"]

_PLAIN = DATA_LAYOUTS[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubPixelAttrs(Attrs):
    """The attributes of nn.depth_to_space and nn.space_to_depth."""

    block_size: int = 1
    """The side of the square of elements that channels are moved to or from."""
    layout: str = "NCHW"
    """The layout of the data."""
    mode: str = "DCR"
    """The order of the index of a channel: DCR has the position first, CDR the channel."""


def _to_space_relation(types: Sequence[Type], attrs: SubPixelAttrs) -> Sequence[Type | None] | None:
    op, size = "nn.depth_to_space", attrs.block_size
    data, _ = tensors(op, types)
    if data is None:
        return None
    if attrs.mode not in {"DCR", "CDR"}:
        raise TypeInferenceError(f"{op}: mode must be DCR or CDR, got {attrs.mode!r}")
    layout = layout_like(op, "layout", attrs.layout, _PLAIN)
    batch, channels, height, width = shape_in_layout(op, "the data", data.shape, layout, _PLAIN)
    must_divide(op, "the number of channels", channels, size * size if size > 0 else 0)
    shape = (batch, channels // (size * size), product((height, size)), product((width, size)))
    return [None, TensorType(shape_in_layout(op, "the result", shape, _PLAIN, layout), data.dtype)]


def _to_depth_relation(types: Sequence[Type], attrs: SubPixelAttrs) -> Sequence[Type | None] | None:
    op, size = "nn.space_to_depth", attrs.block_size
    data, _ = tensors(op, types)
    if data is None:
        return None
    layout = layout_like(op, "layout", attrs.layout, _PLAIN)
    batch, channels, height, width = shape_in_layout(op, "the data", data.shape, layout, _PLAIN)
    must_divide(op, "the height", height, size)
    must_divide(op, "the width", width, size)
    shape = (batch, product((channels, size * size)), height // size, width // size)
    return [None, TensorType(shape_in_layout(op, "the result", shape, _PLAIN, layout), data.dtype)]


def _to_space(attrs: SubPixelAttrs, data: Array) -> Array:
    layout, size = parse_layout(attrs.layout), attrs.block_size
    images = convert_array(data, layout, _PLAIN)
    batch, channels, height, width = images.shape
    depth = channels // (size * size)
    if attrs.mode == "DCR":
        blocks = images.reshape(batch, size, size, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = images.reshape(batch, depth, size, size, height, width).transpose(0, 1, 4, 2, 5, 3)
    return convert_array(blocks.reshape(batch, depth, height * size, width * size), _PLAIN, layout)


def _to_depth(attrs: SubPixelAttrs, data: Array) -> Array:
    layout, size = parse_layout(attrs.layout), attrs.block_size
    images = convert_array(data, layout, _PLAIN)
    batch, depth, height, width = images.shape
    blocks = images.reshape(batch, depth, height // size, size, width // size, size).transpose(0, 3, 5, 1, 2, 4)
    return convert_array(blocks.reshape(batch, -1, height // size, width // size), _PLAIN, layout)


_DEPTH_TO_SPACE = register_op(
    "nn.depth_to_space",
    arguments=("data",),
    attrs_type=SubPixelAttrs,
    relation=_to_space_relation,
    compute=_to_space,
    pattern=OpPattern.INJECTIVE,
    level=5,
    description="Groups of channels as squares of elements.",
)

_SPACE_TO_DEPTH = register_op(
    "nn.space_to_depth",
    arguments=("data",),
    attrs_type=SubPixelAttrs,
    relation=_to_depth_relation,
    compute=_to_depth,
    pattern=OpPattern.INJECTIVE,
    level=5,
    description="Squares of elements as groups of channels.",
)


def depth_to_space(data: Expr, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Call:
    """Return the data with groups of channels as squares of elements.

    A group has `block_size * block_size` channels.
    """
    return Call(_DEPTH_TO_SPACE, (data,), SubPixelAttrs(block_size=block_size, layout=layout, mode=mode))


def space_to_depth(data: Expr, block_size: int, layout: str = "NCHW") -> Call:
    """Return the data with squares of `block_size * block_size` elements as channels.

    This is the inverse of `depth_to_space` in mode DCR.
    """
    return Call(_SPACE_TO_DEPTH, (data,), SubPixelAttrs(block_size=block_size, layout=layout))
