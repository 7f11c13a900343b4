"""Rules of operators that work on each element by itself: any layout will do, as long as all operands have it."""

from collections.abc import Sequence
from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.op.layouts.infer import InferCorrectLayoutOutput, Layouts, set_rule, shape_of
from apass.relay.op.layouts.names import axes_of, index, is_split, primal, text_of, trailing
from apass.relay.ty import Dim, Type

__all__: list[str] = []

_UNARY: Final = (
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "cast",
    "cast_like",
    "ceil",
    "clip",
    "copy",
    "cos",
    "cosh",
    "erf",
    "exp",
    "fast_erf",
    "fast_exp",
    "fast_tanh",
    "fixed_point_multiply",
    "floor",
    "full_like",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log2",
    "logical_not",
    "negative",
    "nn.leaky_relu",
    "nn.relu",
    "ones_like",
    "reinterpret",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "zeros_like",
    "annotation.stop_fusion",
    "device_copy",
    "on_device",
)
"""Operators on one tensor; cast_like and full_like have a second operand, which may be of any shape."""

_BROADCAST: Final = (
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "divide",
    "equal",
    "floor_divide",
    "floor_mod",
    "greater",
    "greater_equal",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "not_equal",
    "power",
    "right_shift",
    "subtract",
    "trunc_divide",
    "trunc_mod",
    "where",
)
"""Operators on tensors that are broadcast against each other."""


def _unary(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    layout = old[0] if new is None else new[0]
    return InferCorrectLayoutOutput((layout, *(None,) * (len(old) - 1)), (layout,), attrs)


def _dropout(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layout of the data, also for the mask."""
    layout = old[0] if new is None else new[0]
    return InferCorrectLayoutOutput((layout,), (layout, layout), attrs)


def _broadcast(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    shapes = [shape for shape in map(shape_of, types) if shape is not None]
    if len(shapes) != len(types):
        return None
    sources = _aligned(old, shapes)
    if sources is None:
        return None
    largest = max(range(len(shapes)), key=lambda place: len(shapes[place]))
    if new is None:
        return InferCorrectLayoutOutput(sources, (sources[largest],), attrs)
    given = [one if layout is None else layout for one, layout in zip(sources, new, strict=True)]
    leader = max(range(len(given)), key=lambda place: len(primal(given[place])))
    target = given[leader]
    if target == sources[leader]:
        return InferCorrectLayoutOutput(sources, (sources[largest],), attrs)
    layouts = [_like(target, source, shape) for source, shape in zip(sources, shapes, strict=True)]
    layouts[leader] = target
    return None if None in layouts else InferCorrectLayoutOutput(layouts, (target,), attrs)


def _aligned(old: Layouts, shapes: Sequence[Sequence[Dim]]) -> list[str] | None:
    """Return the layout of each operand by that of one as large as the result, aligned at the last dimensions."""
    rank = max(map(len, shapes))
    whole = next((one for one, shape in zip(old, shapes, strict=True) if one is not None and len(shape) == rank), None)
    if whole is None or len(axes_of(whole)) != rank:
        return None
    layouts = [trailing(whole, len(shape)) for shape in shapes]
    known = [layout for layout in layouts if layout is not None]
    return known if len(known) == len(layouts) else None


def _like(target: str, source: str, shape: Sequence[Dim]) -> str | None:
    """Return the layout that an operand is broadcast in against one in `target`: where it is 1 long, so are the blocks.

    None if it cannot be told, as a length is not known.
    """
    if not source:
        return ""
    made: list[tuple[str, int]] = []
    for letter, factor in axes_of(target):
        place = index(source, letter.upper())
        length = 1 if place < 0 else shape[place]
        if letter.islower() and not isinstance(length, int):
            return None
        already_split = is_split(source, letter)
        made.append((letter, 1 if letter.islower() and length == 1 and not already_split else factor))
    return text_of(made)


set_rule(_unary, _UNARY)
set_rule(_dropout, ("nn.dropout",))
set_rule(_broadcast, _BROADCAST)
