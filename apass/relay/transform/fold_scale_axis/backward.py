"""BackwardFoldScaleAxis: fold a scale into the weights that precede it.

The counterpart of TVM's `fold_scale_axis.cc`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import call_op, op_name, tensor_type
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

__all__ = ["BackwardFoldScaleAxis", "fold_scale_backward"]


def fold_scale_backward(func: Function) -> Function:
    """Return the function with scales folded into the weights that precede them.

    The function must be typed. `relu(conv2d(x, w) + bias) * scale` becomes `relu(conv2d(x, w * scale) + bias * scale)`
    if the scaled expression has no other user. On its way to the weights a scale passes additions, and relu and
    leaky_relu if it is positive.
    """
    planner = _Planner(func)
    return rewrite_function(_BackwardFolder(planner.scales, planner.dropped), func) if planner.dropped else func


@provide_pass("BackwardFoldScaleAxis")
def BackwardFoldScaleAxis() -> FunctionPass[IRModule, Function]:
    """Fold channel scales into the weights of the convolutions before them."""
    return function_pass(_fold, opt_level=3, name="BackwardFoldScaleAxis", required=["InferType"])


def _fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return fold_scale_backward(ensure_typed(func, mod))


class _Planner:
    """Decides which multiplications to drop, and where to absorb their scales."""

    def __init__(self, func: Function) -> None:
        order = list(post_order(func))
        self.uses = Counter(child for node in order for child in node.children)
        self.demands: dict[Expr, Demand] = {}
        """Expressions that can absorb a scale or pass it on, computed from operands to users."""
        self.scales: dict[Expr, tuple[Expr, Axes]] = {}
        """The scale that an expression must absorb or pass on, and its axes."""
        self.dropped: dict[Expr, int] = {}
        """The dropped multiplications, and the index of the operand that replaces each."""
        for node in order:
            demand = self._demand(node)
            if demand is not None and self.uses[node] == 1:
                self.demands[node] = demand
        for node in reversed(order):
            self._plan(node)

    def _demand(self, node: Expr) -> Demand | None:
        name = op_name(node)
        if not isinstance(node, Call) or not isinstance(node.checked_type, TensorType):
            return None
        if name == "nn.dense" or name in CONVS:
            axes = scaled_axes(node, tensor_type(node.args[0]), output=True)
            return None if axes is None else Demand(axes)
        if name in {"nn.relu", "nn.leaky_relu"}:
            below = self.demands.get(node.args[0])
            return None if below is None else replace(below, positive=True)
        return self._demand_of_sum(node) if name in {"add", "subtract"} else None

    def _demand_of_sum(self, call: Call) -> Demand | None:
        left, right = (self.demands.get(arg) for arg in call.args)
        if left is not None and right is not None:
            same = left.axes == right.axes and tensor_type(call.args[0]).shape == tensor_type(call.args[1]).shape
            return replace(left, positive=left.positive or right.positive) if same else None
        for index, demand in enumerate((left, right)):
            if demand is not None and _is_factor(call, 1 - index, demand.axes):
                return demand
        return None

    def _plan(self, node: Expr) -> None:
        """Drop a multiplication if possible, or pass a node's scale to its operands.

        Called from users to operands.
        """
        if not isinstance(node, Call):
            return
        if node not in self.scales:
            if op_name(node) == "multiply":
                self._drop(node)
            return
        if op_name(node) in {"nn.relu", "nn.leaky_relu", "add", "subtract"}:
            for arg in node.args:
                if arg in self.demands:
                    self.scales[arg] = self.scales[node]

    def _drop(self, call: Call) -> None:
        for index in (0, 1):
            data, other = call.args[index], call.args[1 - index]
            demand = self.demands.get(data)
            if demand is None:
                continue
            scale = squeeze_to_axes(tensor_type(data), tensor_type(other), demand.axes, other)
            if scale is not None and demand.takes(scale):
                self.scales[data] = (scale, demand.axes)
                self.dropped[call] = index
                return


def _is_factor(call: Call, index: int, axes: Axes) -> bool:
    """Return whether an operand broadcasts against the other along `axes` alone."""
    other, data = call.args[index], call.args[1 - index]
    return squeeze_to_axes(tensor_type(data), tensor_type(other), axes, other) is not None


class _BackwardFolder(ExprMutator):
    def __init__(self, scales: Mapping[Expr, tuple[Expr, Axes]], dropped: Mapping[Expr, int]) -> None:
        super().__init__()
        self.scales = scales
        self.dropped = dropped

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call):
            return new
        if call in self.dropped:
            return new.args[self.dropped[call]]
        if call not in self.scales:
            return new
        scale, axes = self.scales[call]
        return self._absorb(call, new, self.visit(scale), axes)

    def _absorb(self, call: Call, new: Call, scale: Expr, axes: Axes) -> Expr:
        name = op_name(call)
        if name in {"nn.relu", "nn.leaky_relu"}:
            return new
        if name in {"add", "subtract"}:
            shape = tensor_type(call).shape
            args = [
                arg if old in self.scales else call_op("multiply", arg, spread(scale, shape, axes))
                for old, arg in zip(call.args, new.args, strict=True)
            ]
            return Call(new.op, args, new.attrs, span=new.span)
        weight = scale_weight(new, new.args[1], scale, tensor_type(call.args[1]).shape, output=True)
        return Call(new.op, (new.args[0], weight, *new.args[2:]), new.attrs, span=new.span)
