"""Layout rules of elementwise operators.

An elementwise operator accepts any layout, provided that all operands have the same one.
"""

from collections.abc import Sequence
from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Dim, Type
from apass.relay.op.layouts.infer import InferCorrectLayoutOutput, Layouts, set_rule, shape_of
from apass.relay.op.layouts.names import axes_of, index, is_split, primal, text_of, trailing

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
    "annotation.compiler_begin",
    "annotation.compiler_end",
    "annotation.stop_fusion",
    "device_copy",
    "on_device",
)
"""Operators of one tensor. cast_like and full_like have a second operand, which may have any shape."""

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
    largest = max(range(len(shapes)), key=lambda operand: len(shapes[operand]))
    if new is None:
        return InferCorrectLayoutOutput(sources, (sources[largest],), attrs)
    inputs = [source if layout is None else layout for source, layout in zip(sources, new, strict=True)]
    leader = max(range(len(inputs)), key=lambda operand: len(primal(inputs[operand])))
    target = inputs[leader]
    if target == sources[leader]:
        return InferCorrectLayoutOutput(sources, (sources[largest],), attrs)
    layouts = [_like(target, source, shape) for source, shape in zip(sources, shapes, strict=True)]
    layouts[leader] = target
    return None if None in layouts else InferCorrectLayoutOutput(layouts, (target,), attrs)


def _aligned(old: Layouts, shapes: Sequence[Sequence[Dim]]) -> list[str] | None:
    """Return the layout of each operand, aligned at the last dimensions.

    They are derived from the layout of an operand that has as many dimensions as the result. Return None if no such
    layout is known.
    """
    rank = max(map(len, shapes))
    whole = next(
        (layout for layout, shape in zip(old, shapes, strict=True) if layout is not None and len(shape) == rank), None
    )
    if whole is None or len(axes_of(whole)) != rank:
        return None
    layouts = [trailing(whole, len(shape)) for shape in shapes]
    known = [layout for layout in layouts if layout is not None]
    return known if len(known) == len(layouts) else None


def _like(target: str, source: str, shape: Sequence[Dim]) -> str | None:
    """Return the layout of an operand that is broadcast against one in `target`.

    An axis of size 1 has blocks of size 1. Return None if this depends on a size that is not known.
    """
    if not source:
        return ""
    axes: list[tuple[str, int]] = []
    for letter, factor in axes_of(target):
        position = index(source, letter.upper())
        length = 1 if position < 0 else shape[position]
        if letter.islower() and not isinstance(length, int):
            return None
        already_split = is_split(source, letter)
        axes.append((letter, 1 if letter.islower() and length == 1 and not already_split else factor))
    return text_of(axes)


set_rule(_unary, _UNARY)
set_rule(_dropout, ("nn.dropout",))
set_rule(_broadcast, _BROADCAST)
