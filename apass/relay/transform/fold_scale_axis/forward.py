"""ForwardFoldScaleAxis: a scale before a convolution goes into its weights; TVM's `fold_scale_axis.cc`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Expr
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.calls import along_axis, call_op, known_type, op_name, tensor_type
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.fold_scale_axis.axes import Demand, scale_weight, scaled_axis, squeeze_to_axis
from apass.relay.transform.support.decorators import function_pass
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["ForwardFoldScaleAxis", "fold_scale_forward"]


def fold_scale_forward(func: Function) -> Function:
    """Return a typed function in which scales of channels went forward into the weights that they meet.

    `conv2d(relu(x * scale), w)` becomes `conv2d(relu(x), w * scale)` if every user of `x * scale` can do without it. On
    the way a scale passes relu and leaky_relu, if it is positive, and additions of a bias, which is divided by it.
    """
    demands = _demands(func)
    return rewrite_function(_ForwardFolder(demands), func) if demands else func


@provide_pass("ForwardFoldScaleAxis")
def ForwardFoldScaleAxis() -> FunctionPass[IRModule, Function]:
    """Fold scales of channels into the weights of the convolutions behind them."""
    return function_pass(_fold, opt_level=3, name="ForwardFoldScaleAxis", required=["InferType"])


def _fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return fold_scale_forward(ensure_typed(func, mod))


def _demands(func: Function) -> Mapping[Expr, Demand]:
    """Return the expressions all of whose users can take up a scale, and what they demand of it."""
    found: dict[Expr, Demand | None] = {}
    for node in reversed(list(post_order(func))):
        for child, demand in _asked_of_operands(node, found.get(node)):
            found[child] = _both(found[child], demand) if child in found else demand
    return {node: demand for node, demand in found.items() if demand is not None}


def _both(one: Demand | None, other: Demand | None) -> Demand | None:
    if one is None or other is None or one.axis != other.axis:
        return None
    return Demand(one.axis, one.positive or other.positive, one.nonzero or other.nonzero)


def _asked_of_operands(node: Expr, demand: Demand | None) -> Iterable[tuple[Expr, Demand | None]]:
    name = op_name(node)
    asked: dict[Expr, Demand | None] = dict.fromkeys(node.children)
    if not isinstance(node, Call) or not node.args or not isinstance(known_type(node.args[0]), TensorType):
        return asked.items()
    data = node.args[0]
    if name in {"nn.relu", "nn.leaky_relu"} and demand is not None:
        asked[data] = replace(demand, positive=True)
    elif name in {"add", "subtract"} and demand is not None and node.args[0] is not node.args[1]:
        scaled = _scaled_operand(node, demand.axis)
        if scaled is not None:
            asked[node.args[scaled]] = replace(demand, nonzero=True)
    elif name == "nn.dense" or name.startswith("nn.conv"):
        axis = scaled_axis(node, tensor_type(data), output=False)
        asked[data] = None if axis is None or data in node.args[1:] else Demand(axis)
    return asked.items()


def _scaled_operand(call: Call, axis: int) -> int | None:
    """Return which of two operands is the whole tensor, the other being a factor along the axis alone."""
    for place in (0, 1):
        one, other = call.args[place], call.args[1 - place]
        if squeeze_to_axis(tensor_type(one), tensor_type(other), axis, other) is not None:
            return place
    return None


@dataclass(frozen=True, slots=True)
class _Pending:
    """A scale that the value of an expression still lacks."""

    scale: Expr
    """A factor for each slice, as a vector."""
    axis: int
    """The axis."""


class _ForwardFolder(ExprMutator):
    def __init__(self, demands: Mapping[Expr, Demand]) -> None:
        super().__init__()
        self.demands = demands
        self.pending: dict[Expr, _Pending] = {}
        """What the results for old expressions still lack; every user takes it up."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if not isinstance(new, Call):
            return new
        if op_name(call) == "multiply" and call in self.demands:
            return self._take_off(call, new)
        late = [place for place, arg in enumerate(call.args) if arg in self.pending]
        return self._carry_on(call, new, late[0]) if late else new

    def _take_off(self, call: Call, new: Call) -> Expr:
        """Leave out the scale of a multiplication, to be taken up later."""
        demand = self.demands[call]
        for place in (0, 1):
            one, other = call.args[place], call.args[1 - place]
            scale = squeeze_to_axis(tensor_type(one), tensor_type(other), demand.axis, new.args[1 - place])
            if scale is not None and demand.takes(scale):
                self.pending[call] = _Pending(scale, demand.axis)
                return new.args[place]
        return new

    def _carry_on(self, call: Call, new: Call, place: int) -> Expr:
        """Take up the scale that an operand lacks, or lack it as well."""
        lacking, name = self.pending[call.args[place]], op_name(call)
        if name == "nn.dense" or name.startswith("nn.conv"):
            weight = scale_weight(new, new.args[1], lacking.scale, output=False)
            return Call(new.op, (new.args[0], weight, *new.args[2:]), new.attrs, span=new.span)
        self.pending[call] = lacking
        if name not in {"add", "subtract"}:
            return new
        rank = len(tensor_type(call.args[place]).shape)
        bias = call_op("divide", new.args[1 - place], along_axis(lacking.scale, lacking.axis, rank))
        return Call(new.op, (new.args[0], bias) if place == 0 else (bias, new.args[1]), new.attrs, span=new.span)
