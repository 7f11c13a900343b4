"""ForwardFoldScaleAxis: fold a scale into the weights that follow it.

The counterpart of TVM's `fold_scale_axis.cc`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import call_op, known_type, op_name, tensor_type
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType
from apass.relay.transform.fold_scale_axis.axes import (
    CONVS,
    Axes,
    Demand,
    scale_weight,
    scaled_axes,
    spread,
    squeeze_to_axes,
)
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["ForwardFoldScaleAxis", "fold_scale_forward"]


def fold_scale_forward(func: Function) -> Function:
    """Return the function with scales folded into the weights that follow them.

    The function must be typed. `conv2d(relu(x * scale), w)` becomes `conv2d(relu(x), w * scale)` if every user of `x *
    scale` can absorb the scale. On its way to the weights a scale passes relu and leaky_relu if it is positive, and
    additions of a bias, which is divided by it.
    """
    demands = _demands(func)
    return rewrite_function(_ForwardFolder(demands), func) if demands else func


@provide_pass("ForwardFoldScaleAxis")
def ForwardFoldScaleAxis() -> FunctionPass[IRModule, Function]:
    """Fold channel scales into the weights of the convolutions after them."""
    return function_pass(_fold, opt_level=3, name="ForwardFoldScaleAxis", required=["InferType"])


def _fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return fold_scale_forward(ensure_typed(func, mod))


def _demands(func: Function) -> Mapping[Expr, Demand]:
    """Return the demand of each expression whose users can all absorb a scale."""
    demands: dict[Expr, Demand | None] = {}
    for node in reversed(list(post_order(func))):
        for child, demand in _operand_demands(node, demands.get(node)):
            demands[child] = _both(demands[child], demand) if child in demands else demand
    return {node: demand for node, demand in demands.items() if demand is not None}


def _both(left: Demand | None, right: Demand | None) -> Demand | None:
    if left is None or right is None or left.axes != right.axes:
        return None
    return Demand(left.axes, left.positive or right.positive, left.nonzero or right.nonzero)


def _operand_demands(node: Expr, demand: Demand | None) -> Iterable[tuple[Expr, Demand | None]]:
    name = op_name(node)
    demands: dict[Expr, Demand | None] = dict.fromkeys(node.children)
    if not isinstance(node, Call) or not node.args or not isinstance(known_type(node.args[0]), TensorType):
        return demands.items()
    data = node.args[0]
    if name in {"nn.relu", "nn.leaky_relu"} and demand is not None:
        demands[data] = replace(demand, positive=True)
    elif name in {"add", "subtract"} and demand is not None and node.args[0] is not node.args[1]:
        scaled = _scaled_operand(node, demand.axes)
        if scaled is not None:
            demands[node.args[scaled]] = replace(demand, nonzero=True)
    elif name == "nn.dense" or name in CONVS:
        axes = scaled_axes(node, tensor_type(data), output=False)
        demands[data] = None if axes is None or data in node.args[1:] else Demand(axes)
    return demands.items()


def _scaled_operand(call: Call, axes: Axes) -> int | None:
    """Return the index of the full tensor if the other operand is a factor.

    The factor varies along `axes` alone.
    """
    for index in (0, 1):
        data, other = call.args[index], call.args[1 - index]
        if squeeze_to_axes(tensor_type(data), tensor_type(other), axes, other) is not None:
            return index
    return None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A scale that was removed from an expression and that its users must absorb."""

    scale: Expr
    """The factor of each channel, with the axes of the channels alone."""
    axes: Axes
    """The axes of the channels."""


class _ForwardFolder(ExprMutator):
    def __init__(self, demands: Mapping[Expr, Demand]) -> None:
        super().__init__()
        self.demands = demands
        self.pending: dict[Expr, _Pending] = {}
        """The removed scales by original expression; every user absorbs or passes on its scale."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call):
            return new
        if op_name(call) == "multiply" and call in self.demands:
            return self._remove(call, new)
        scaled = [index for index, arg in enumerate(call.args) if arg in self.pending]
        return self._apply_pending(call, new, scaled[0]) if scaled else new

    def _remove(self, call: Call, new: Call) -> Expr:
        """Remove the scale of a multiplication, for the users to absorb."""
        demand = self.demands[call]
        for index in (0, 1):
            data, other = call.args[index], call.args[1 - index]
            scale = squeeze_to_axes(tensor_type(data), tensor_type(other), demand.axes, new.args[1 - index])
            if scale is not None and demand.takes(scale):
                self.pending[call] = _Pending(scale, demand.axes)
                return new.args[index]
        return new

    def _apply_pending(self, call: Call, new: Call, index: int) -> Expr:
        """Absorb the pending scale of an operand, or pass it on to the users of the call."""
        pending, name = self.pending[call.args[index]], op_name(call)
        if name == "nn.dense" or name in CONVS:
            weight = scale_weight(new, new.args[1], pending.scale, tensor_type(call.args[1]).shape, output=False)
            return Call(new.op, (new.args[0], weight, *new.args[2:]), new.attrs, span=new.span)
        self.pending[call] = pending
        if name not in {"add", "subtract"}:
            return new
        shape = tensor_type(call.args[index]).shape
        bias = call_op("divide", new.args[1 - index], spread(pending.scale, shape, pending.axes))
        return Call(new.op, (new.args[0], bias) if index == 0 else (bias, new.args[1]), new.attrs, span=new.span)
