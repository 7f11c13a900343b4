"""FoldExplicitPadding: replace `nn.pad` by padding of the convolution after it.

The counterpart of TVM's `fold_explicit_padding.cc`.
"""

from collections import Counter
from operator import add
from typing import Final

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import attrs_of, is_scalar, op_name
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.nn.conv.conv import ConvAttrs
from apass.relay.op.nn.pad import PadAttrs
from apass.relay.op.nn.windows import padding_of
from apass.relay.transform.function_pass import function_pass
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["FoldExplicitPadding", "fold_explicit_padding"]

_CONVOLUTIONS: Final = frozenset({"nn.conv1d", "nn.conv2d", "nn.conv3d"})
_SPATIAL: Final = "DHW"


def fold_explicit_padding(func: Function) -> Function:
    """Return the function with paddings moved into convolutions.

    A padding is moved if it adds zeros to spatial dimensions alone, and if the convolution is its only user. A padding
    that removes elements stays, and so does one before a convolution in a blocked layout.
    """
    return rewrite_function(_PaddingFolder(func), func)


@provide_pass("FoldExplicitPadding")
def FoldExplicitPadding() -> FunctionPass[IRModule, Function]:
    """Replace padding with zeros before a convolution by padding of the convolution."""
    return function_pass(_fold, opt_level=0, name="FoldExplicitPadding", required=["InferType"])


def _fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return fold_explicit_padding(func)


class _PaddingFolder(ExprMutator):
    def __init__(self, func: Function) -> None:
        super().__init__()
        self._uses = Counter(child for node in post_order(func) for child in node.children)

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if op_name(new) not in _CONVOLUTIONS or not isinstance(new, Call):
            return new
        attrs, source = attrs_of(new, ConvAttrs), call.args[0]
        padding = padding_of(attrs.padding, len(attrs.data_layout) - 2)
        while self._uses[source] == 1 and isinstance(source, Call):
            added = _spatial_padding(source, attrs.data_layout)
            if added is None:
                break
            padding = tuple(map(add, padding, added))
            source = source.args[0]
        if source is call.args[0]:
            return new
        args = (self.visit(source), new.args[1])
        return Call(new.op, args, attrs.replaced(padding=padding), new.type_args, span=new.span)


def _spatial_padding(pad: Call, layout: str) -> tuple[int, ...] | None:
    """Return the padding before each spatial dimension, then after each.

    Return None if the call is anything but a padding that a convolution can do.
    """
    if op_name(pad) != "nn.pad" or not is_scalar(pad.args[1], 0):
        return None
    attrs = attrs_of(pad, PadAttrs)
    if attrs.pad_mode != "constant" or len(attrs.pad_width) != len(layout) or min(map(min, attrs.pad_width)) < 0:
        return None
    widths = dict(zip(layout, attrs.pad_width, strict=True))
    if any(sum(width) for axis, width in widths.items() if axis not in _SPATIAL):
        return None
    spatial = [widths[axis] for axis in _SPATIAL if axis in widths]
    return (*(before for before, _ in spatial), *(after for _, after in spatial))
