"""SimplifyInference: expand normalizations and drop dropouts.

The counterpart of TVM's `simplify_inference.cc`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import along_axis, call_op, op_name, scalar_like, tensor_type
from apass.relay.ir.expr import Call, Expr, TupleGetItem
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.nn.norm.batch_norm import BatchNormAttrs
from apass.relay.op.nn.norm.norm import GroupNormAttrs, InstanceNormAttrs, LayerNormAttrs
from apass.relay.op.nn.norm.scale import L2NormalizeAttrs
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["SimplifyInference", "simplify_inference"]


def simplify_inference(func: Function) -> Function:
    """Return the function with normalizations as arithmetic and without dropouts.

    The function must be typed. A batch normalization is expanded if only its first result is used: the other results
    are training statistics.
    """
    return rewrite_function(_InferenceSimplifier(), func)


@provide_pass("SimplifyInference")
def SimplifyInference() -> FunctionPass[IRModule, Function]:
    """Expand normalizations to arithmetic and drop dropouts, for inference."""
    return function_pass(_simplify, opt_level=0, name="SimplifyInference", required=["InferType"])


def _simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return simplify_inference(ensure_typed(func, mod))


class _InferenceSimplifier(ExprMutator):
    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        old_call = op.tuple_value
        if op.index != 0 or not isinstance(old_call, Call) or not isinstance(new, TupleGetItem):
            return new
        call = new.tuple_value
        if op_name(call) == "nn.dropout" and isinstance(call, Call):
            return call.args[0]
        if isinstance(call, Call) and isinstance(call.attrs, BatchNormAttrs):
            return _unpack_batch_norm(call.attrs, call.args, old_call.args[0])
        return new

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        unpack = _UNPACK.get(op_name(new))
        return new if unpack is None or not isinstance(new, Call) else unpack(new, call.args[0])


def _unpack_batch_norm(attrs: BatchNormAttrs, args: Sequence[Expr], typed: Expr) -> Expr:
    """Return `data * scale + shift`.

    Both factors depend on the statistics alone, so that they fold to constants.
    """
    data, gamma, beta, mean, variance = args
    deviation = call_op("sqrt", call_op("add", variance, scalar_like(attrs.epsilon, typed)))
    scale = call_op("divide", scalar_like(1.0, typed), deviation)
    if attrs.scale:
        scale = call_op("multiply", scale, gamma)
    shift = call_op("multiply", call_op("negative", mean), scale)
    if attrs.center:
        shift = call_op("add", shift, beta)
    rank = len(tensor_type(typed).shape)
    scaled = call_op("multiply", data, along_axis(scale, attrs.axis, rank))
    return call_op("add", scaled, along_axis(shift, attrs.axis, rank))


def _normalize(data: Expr, axes: Sequence[int], epsilon: float, typed: Expr) -> Expr:
    mean = call_op("mean", data, axis=tuple(axes), keepdims=True)
    variance = call_op("variance", data, mean, axis=tuple(axes), keepdims=True)
    deviation = call_op("sqrt", call_op("add", variance, scalar_like(epsilon, typed)))
    return call_op("divide", call_op("subtract", data, mean), deviation)


def _unpack_layer_norm(call: Call, typed: Expr) -> Expr:
    attrs = call.attrs
    if not isinstance(attrs, LayerNormAttrs):
        return call
    data, gamma, beta = call.args
    rank = len(tensor_type(typed).shape)
    out = _normalize(data, [attrs.axis], attrs.epsilon, typed)
    return _scaled(out, gamma, beta, attrs.axis, rank, scale=attrs.scale, center=attrs.center)


def _unpack_instance_norm(call: Call, typed: Expr) -> Expr:
    attrs = call.attrs
    if not isinstance(attrs, InstanceNormAttrs):
        return call
    data, gamma, beta = call.args
    rank = len(tensor_type(typed).shape)
    axes = [axis for axis in range(1, rank) if axis != attrs.axis % rank]
    out = _normalize(data, axes, attrs.epsilon, typed)
    return _scaled(out, gamma, beta, attrs.axis, rank, scale=attrs.scale, center=attrs.center)


def _unpack_group_norm(call: Call, typed: Expr) -> Expr:
    """Split the channels into groups, normalize each group, and join the groups again."""
    attrs = call.attrs
    if not isinstance(attrs, GroupNormAttrs):
        return call
    data, gamma, beta = call.args
    shape = tensor_type(typed).concrete_shape
    rank, axis = len(shape), attrs.axis % len(shape)
    grouped = (*shape[:axis], attrs.num_groups, shape[axis] // attrs.num_groups, *shape[axis + 1 :])
    axes = range(axis + 1, rank + 1) if axis == 1 else [index for index in range(1, rank + 1) if index != axis]
    out = _normalize(call_op("reshape", data, newshape=grouped), axes, attrs.epsilon, typed)
    whole = call_op("reshape", out, newshape=shape)
    return _scaled(whole, gamma, beta, axis, rank, scale=attrs.scale, center=attrs.center)


def _scaled(data: Expr, gamma: Expr, beta: Expr, axis: int, rank: int, *, scale: bool, center: bool) -> Expr:
    if scale:
        data = call_op("multiply", data, along_axis(gamma, axis, rank))
    return call_op("add", data, along_axis(beta, axis, rank)) if center else data


def _unpack_l2_normalize(call: Call, typed: Expr) -> Expr:
    attrs = call.attrs
    if not isinstance(attrs, L2NormalizeAttrs):
        return call
    (data,) = call.args
    square = call_op("multiply", data, data)
    total = call_op("sum", square, axis=attrs.axis, keepdims=True)
    bounded = call_op("maximum", total, scalar_like(attrs.eps, typed))
    return call_op("divide", data, call_op("sqrt", bounded))


_UNPACK: Final[Mapping[str, Callable[[Call, Expr], Expr]]] = {
    "nn.layer_norm": _unpack_layer_norm,
    "nn.instance_norm": _unpack_instance_norm,
    "nn.group_norm": _unpack_group_norm,
    "nn.l2_normalize": _unpack_l2_normalize,
}
