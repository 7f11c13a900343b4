"""Which operators can work in another layout than the one they were written for, and what changes in their calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from apass.relay.attrs import Attrs
from apass.relay.calls import op_name
from apass.relay.expr import Call, Op
from apass.relay.op.layout import parse_layout
from apass.relay.op.nn.pad import PadAttrs
from apass.relay.op.reduce import ReduceAttrs
from apass.relay.op.registry import OpPattern
from apass.relay.ty import TensorType

__all__ = ["Change", "adapted_attrs", "is_elementwise"]


@dataclass(frozen=True, slots=True)
class Change:
    """A tensor that stands in another layout than the program was written for."""

    source: str
    """The layout that the program has it in."""
    target: str
    """The layout that it is in."""

    def axis(self, axis: int) -> int:
        """Return where an axis of the program's layout stands now."""
        source = parse_layout(self.source)
        letter, _ = source.axes[axis % source.rank]
        return parse_layout(self.target).index(letter)

    def reordered(self, values: tuple[object, ...]) -> tuple[object, ...]:
        """Return something that there is for each axis, in the order that the axes have now."""
        source = parse_layout(self.source)
        return tuple(values[source.index(letter)] for letter, _ in parse_layout(self.target).axes)


Adapt: TypeAlias = Callable[[Attrs, Change], Attrs | None]
"""Returns the attributes for a call in another layout; None if the call cannot be made there."""


def _layout(attrs: Attrs, change: Change) -> Attrs | None:
    is_as_written = attrs["layout"] == change.source and not _get(attrs, "out_layout")
    return attrs.replaced(layout=change.target) if is_as_written else None


def _axis(attrs: Attrs, change: Change) -> Attrs | None:
    axis = attrs["axis"]
    return attrs.replaced(axis=change.axis(axis)) if isinstance(axis, int) else None


def _pad_width(attrs: Attrs, change: Change) -> Attrs | None:
    return attrs.replaced(pad_width=change.reordered(attrs.pad_width)) if isinstance(attrs, PadAttrs) else None


def _reduced_axes(attrs: Attrs, change: Change) -> Attrs | None:
    """Reductions keep the layout only if they keep the axes."""
    if not isinstance(attrs, ReduceAttrs) or not attrs.keepdims or attrs.exclude or attrs.axis is None:
        return None
    return attrs.replaced(axis=tuple(sorted(change.axis(axis) for axis in attrs.axis)))


def _get(attrs: Attrs, name: str) -> object:
    return attrs[name] if name in attrs.keys() else None  # noqa: SIM118  keys() is no view of a mapping


_ADAPT: Final[Mapping[str, Adapt]] = {
    **dict.fromkeys(
        (
            "nn.max_pool2d",
            "nn.avg_pool2d",
            "nn.global_max_pool2d",
            "nn.global_avg_pool2d",
            "nn.adaptive_max_pool2d",
            "nn.adaptive_avg_pool2d",
            "nn.upsampling",
            "image.resize2d",
        ),
        _layout,
    ),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax", "nn.lrn", "nn.bias_add", "nn.prelu", "concatenate"), _axis),
    **dict.fromkeys(("nn.pad",), _pad_width),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), _reduced_axes),
}
"""Operators whose attributes speak of the layout."""


def is_elementwise(call: Call) -> bool:
    """Tell whether an operator works in any layout, as long as all its operands are in the same."""
    pattern = call.op.get_attr("TOpPattern") if isinstance(call.op, Op) else None
    speaks_of_axes = op_name(call) in _SHAPED or op_name(call) in _ADAPT
    return isinstance(pattern, OpPattern) and pattern <= OpPattern.BROADCAST and not speaks_of_axes


_SHAPED: Final = frozenset({"broadcast_to", "full", "zeros", "ones", "expand_dims", "repeat", "tile", "meshgrid"})
"""Operators that broadcast, but to a shape that they have as an attribute."""


def adapted_attrs(call: Call, change: Change) -> Attrs | None:
    """Return the attributes of a call of an operator that speaks of the layout; None if it cannot be adapted."""
    adapt = _ADAPT.get(op_name(call))
    if adapt is None or call.attrs is None or not isinstance(call.checked_type, TensorType):
        return None
    return adapt(call.attrs, change)
