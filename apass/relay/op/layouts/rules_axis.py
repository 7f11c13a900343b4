"""Layout rules of operators that have an axis as an attribute."""

from collections.abc import Sequence

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Dim
from apass.relay.op.layouts.infer import follow, set_rule
from apass.relay.op.layouts.names import Change
from apass.relay.op.nn.norm.scale import L2NormalizeAttrs

__all__ = ["axis_moved"]


def axis_moved(attrs: Attrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    """Return the attributes with `axis` moved; None if the axis is split."""
    axis = change.whole_axis(attrs.get_int("axis") % len(shape))
    return None if axis is None else attrs.replaced(axis=axis)


def _samples_first(attrs: Attrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    # The operator treats axis 0 as that of the samples, so it must stay the first.
    return axis_moved(attrs, change, shape) if change.whole_axis(0) == 0 else None


def _axes_moved(attrs: Attrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    if not isinstance(attrs, L2NormalizeAttrs) or not attrs.axis:
        return attrs
    axes = change.whole_axes(axis % len(shape) for axis in attrs.axis)
    return None if axes is None else attrs.replaced(axis=axes)


# TVM 0.8 has no rule for the first four operators: ConvertLayout changes the layout of their operand back. TVM's rule
# for nn.prelu changes it back too.
set_rule(
    follow(axis_moved),
    ("nn.softmax", "nn.log_softmax", "nn.fast_softmax", "nn.lrn", "nn.prelu", "nn.bias_add", "nn.layer_norm"),
)
set_rule(follow(axis_moved, results=3), ("nn.batch_norm",))
set_rule(follow(_samples_first), ("nn.instance_norm",))
set_rule(follow(_axes_moved), ("nn.l2_normalize",))
