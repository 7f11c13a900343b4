"""ConvertLayout: convolutions work in another layout, and what stands between them too; TVM's `convert_layout.cc`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from apass.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes import FunctionPass
from apass.registry import provide_pass
from apass.relay.attrs import Attrs
from apass.relay.calls import call_op, op_name, tensor_type
from apass.relay.expr import Call, Expr, Tuple
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.module import IRModule
from apass.relay.op.layout import parse_layout
from apass.relay.op.nn.conv import Conv2DAttrs
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.layout_rules import Change, adapted_attrs, is_elementwise
from apass.relay.transform.typed import function_pass
from apass.relay.ty import TensorType
from apass.relay.type_infer import ensure_typed

__all__ = ["ConvertLayout", "convert_layout"]

DEFAULT: Final = "default"
"""The layout of weights that goes best with that of the data."""

KERNEL_LAYOUTS: Final[Mapping[str, tuple[str, str]]] = {"NCHW": ("OIHW", "OIHW"), "NHWC": ("HWIO", "HWOI")}
"""The default layout of weights for each layout of data, and that for depthwise convolutions."""


def convert_layout(func: Function, desired_layouts: Mapping[str, Sequence[str]]) -> Function:
    """Return a typed function whose convolutions work in the layouts that are wanted.

    Tensors change their layout before the first of them and after the last; what stands between (elementwise
    operators, pooling, concatenation, padding, reductions that keep the axes) works in the new layout as well.

    Parameters:
        func: the function.
        desired_layouts: by operator, `nn.conv2d` being known, the layout of the data and that of the weights.

    Raises:
        PassDefinitionError: if an operator or a layout is none that this can do.

    """
    _check(desired_layouts)
    return rewrite_function(_LayoutConverter(desired_layouts), func)


@provide_pass("ConvertLayout")
def ConvertLayout(desired_layouts: dict[str, list[str]]) -> FunctionPass[IRModule, Function]:
    """Make convolutions, and what stands between them, work in other layouts: `{"nn.conv2d": ["NHWC", "default"]}`."""
    _check(desired_layouts)

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return convert_layout(ensure_typed(func, mod), desired_layouts)

    required = ["InferType", "SimplifyInference", "CanonicalizeOps"]
    return function_pass(convert, opt_level=3, name="ConvertLayout", required=required)


def _check(desired_layouts: Mapping[str, Sequence[str]]) -> None:
    for name, layouts in desired_layouts.items():
        if name != "nn.conv2d":
            raise PassDefinitionError(f"ConvertLayout knows how to convert nn.conv2d, not {name!r}")
        if not layouts or layouts[0] not in KERNEL_LAYOUTS or len(layouts) > 2:
            raise PassDefinitionError(
                f"the layouts of {name} must be [data, weights], data one of {', '.join(KERNEL_LAYOUTS)} and "
                f"weights a layout or 'default', not {list(layouts)!r}"
            )


class _LayoutConverter(ExprMutator):
    """Every result is in the layout of the program; beside it stands, in `changed`, the same in another."""

    def __init__(self, desired_layouts: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.desired = desired_layouts
        self.changed: dict[Expr, tuple[Expr, Change]] = {}
        """For an old expression: the value in another layout, and which."""
        self.moved: dict[tuple[Expr, str, str], Expr] = {}
        """Changes of layout that were made, so that each is made once."""

    def visit_call(self, call: Call) -> Expr:
        made = self._convolution(call) if op_name(call) in self.desired else self._between(call)
        if made is None:
            return super().visit_call(call)
        value, change = made
        self.changed[call] = made
        return self._move(value, change.target, change.source)

    def _move(self, value: Expr, source: str, target: str) -> Expr:
        """Return a value in another layout; what was moved there comes back as it was."""
        if source == target:
            return value
        key = (value, source, target)
        if key not in self.moved:
            moved = call_op("layout_transform", value, src_layout=source, dst_layout=target)
            self.moved[key] = moved
            self.moved[moved, target, source] = value
        return self.moved[key]

    def _convolution(self, call: Call) -> tuple[Expr, Change] | None:
        attrs = call.attrs
        if not isinstance(attrs, Conv2DAttrs) or attrs.out_layout not in {"", attrs.data_layout}:
            return None
        data_layout, kernel_layout = self._wanted(call, attrs)
        layouts = (attrs.data_layout, attrs.kernel_layout, data_layout, kernel_layout)
        if any(len(one) != 4 for one in layouts) or layouts[:2] == layouts[2:]:
            return None
        data = self._in_layout(call.args[0], Change(attrs.data_layout, data_layout))
        weight = self._move(self.visit(call.args[1]), attrs.kernel_layout, kernel_layout)
        new_attrs = replace(attrs, data_layout=data_layout, kernel_layout=kernel_layout, out_layout="")
        made = Call(call.op, (data, weight), new_attrs, span=call.span)
        return made, Change(attrs.data_layout, data_layout)

    def _wanted(self, call: Call, attrs: Conv2DAttrs) -> tuple[str, str]:
        data_layout, *rest = self.desired[op_name(call)]
        if rest and rest[0] != DEFAULT:
            return data_layout, rest[0]
        channels = tensor_type(call.args[0]).shape[parse_layout(attrs.data_layout).index("C")]
        is_depthwise = attrs.groups > 1 and attrs.groups == channels
        return data_layout, KERNEL_LAYOUTS[data_layout][is_depthwise]

    def _in_layout(self, old: Expr, change: Change) -> Expr:
        if old in self.changed and self.changed[old][1] == change:
            return self.changed[old][0]
        return self._move(self.visit(old), change.source, change.target)

    def _between(self, call: Call) -> tuple[Expr, Change] | None:
        """Return the call in the layout of its operands, if any stands in another and the operator does not mind."""
        operands = self._operands(call)
        change = next((self.changed[one][1] for one in operands if one in self.changed), None)
        if change is None or len(change.source) != len(_shape(call)):
            return None
        attrs = call.attrs
        if not is_elementwise(call):
            attrs = adapted_attrs(call, change)
            if attrs is None:
                return None
        return self._in_new_layout(call, attrs, change)

    def _operands(self, call: Call) -> tuple[Expr, ...]:
        first = call.args[0] if call.args else None
        return first.fields if isinstance(first, Tuple) and op_name(call) == "concatenate" else call.args

    def _in_new_layout(self, call: Call, attrs: Attrs | None, change: Change) -> tuple[Expr, Change] | None:
        rank = len(change.source)
        if op_name(call) == "concatenate":
            fields = Tuple([self._in_layout(one, change) for one in self._operands(call)])
            return Call(call.op, [fields], attrs, span=call.span), change
        args: list[Expr] = []
        for place, old in enumerate(call.args):
            old_rank = len(_shape(old))
            if old_rank == rank:
                args.append(self._in_layout(old, change))
            elif old_rank == 0 or (place > 0 and not is_elementwise(call)):
                args.append(self.visit(old))
            elif is_elementwise(call):
                widened = call_op("expand_dims", self.visit(old), axis=0, num_newaxis=rank - old_rank)
                args.append(self._move(widened, change.source, change.target))
            else:
                return None
        return Call(call.op, args, attrs, span=call.span), change


def _shape(expr: Expr) -> tuple[object, ...]:
    ty = expr.checked_type
    return ty.shape if isinstance(ty, TensorType) else ()
