"""SimplifyExpr: local algebraic rewrites, applied bottom up.

The counterpart of TVM's `simplify_expr.cc`, with the rewrites of TVM 0.8.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.calls import attrs_of, call_op, is_scalar, op_name
from apass.relay.ir.expr import Call, Constant, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.layout import Layout, parse_layout
from apass.relay.op.define.registry import OpPattern
from apass.relay.op.shape.axes import LayoutTransformAttrs, TransposeAttrs
from apass.relay.op.shape.broadcast import collapse_sum_to
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["SimplifyExpr", "simplify_expr"]

TypeOf: TypeAlias = Callable[[Expr], TensorType | None]
"""Returns the type of an operand: None if it is not a tensor."""
Rule: TypeAlias = Callable[[Call, TensorType, TypeOf], Expr | None]
"""Returns a replacement of the same type and value for a call of a type; None if the rule does not apply."""


def simplify_expr(func: Function) -> Function:
    """Return the function simplified by rules that keep types and values.

    The function must be typed. The rules:

    - `zeros_like`, `reshape_like` and similar: the operator that takes the shape as an attribute, if it is static
    - `x + 0`, `x - 0`, `x * 1`, `x / 1`: `x`, if no broadcasting takes place
    - two reshapes, two transposes or changes of layout: one of them
    - a cast to the same type, two transposes that undo each other: the operand
    - a constant `full`, `zeros` or `ones` beside a tensor of the type of the result: a scalar
    """
    return rewrite_function(_Simplifier(), func)


@provide_pass("SimplifyExpr")
def SimplifyExpr() -> FunctionPass[IRModule, Function]:
    """Simplify identities, chains of reshapes, transposes and casts, and known shapes."""
    return function_pass(_simplify, opt_level=0, name="SimplifyExpr", required=["InferType"])


def _simplify(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return simplify_expr(ensure_typed(func, mod))


class _Simplifier(ExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.types: dict[Expr, Type] = {}
        """The types of new expressions; the original ones carry their own."""

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        ty = call.checked_type
        while isinstance(ty, TensorType) and isinstance(new, Call):
            self.types[new] = ty
            replacement = self._apply(new, ty)
            if replacement is None:
                break
            new = replacement
        self.types[new] = ty
        return new

    def _apply(self, call: Call, ty: TensorType) -> Expr | None:
        for rule in (*RULES.get(op_name(call), ()), _with_full):
            replacement = rule(call, ty, self._tensor_type)
            if replacement is not None:
                return replacement
        return None

    def _tensor_type(self, expr: Expr) -> TensorType | None:
        is_typed = expr.checked_type_ is not None or not expr.children
        ty = self.types.get(expr) or (expr.checked_type if is_typed else None)
        return ty if isinstance(ty, TensorType) else None


def _inner(expr: Expr, *names: str) -> Call | None:
    """Return the expression if it is a call of one of the named operators."""
    return expr if isinstance(expr, Call) and op_name(expr) in names else None


def _identity(value: float, *, either: bool) -> Rule:
    """Return the rule that drops an operand equal to `value`.

    The operand is the second one, or either.
    """

    def rule(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
        lhs, rhs = call.args
        pairs = ((lhs, rhs), (rhs, lhs)) if either else ((lhs, rhs),)
        return next((data for data, unit in pairs if _is_value(unit, value) and type_of(data) == ty), None)

    return rule


def _is_value(expr: Expr, value: float) -> bool:
    name = "ones" if value else "zeros"
    is_one_element = isinstance(expr, Constant) and expr.data.size == 1
    return (is_one_element and is_scalar(expr, value)) or op_name(expr) in {name, f"{name}_like"}


def _same_dtype(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    """Drop a cast to the element type of its operand, for static and dynamic shapes."""
    source = type_of(call.args[0])
    return call.args[0] if source is not None and source.dtype == ty.dtype else None


def _reshape_of_reshape(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    inner = _inner(call.args[0], "reshape", "contrib_reverse_reshape")
    if inner is None or not _can_be_newshape(ty):
        return None
    return call_op("reshape", inner.args[0], newshape=ty.concrete_shape)


def _can_be_newshape(ty: TensorType) -> bool:
    """Return whether a shape can be given to reshape, where 0 copies a dimension."""
    return ty.is_static and 0 not in ty.shape


def _transpose(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    """Merge two transposes or layout changes, or drop both if they move nothing."""
    outer = _permutation(call, len(ty.shape))
    inner = _inner(call.args[0], "transpose", "layout_transform")
    between = None if inner is None else type_of(inner)
    if inner is None or between is None:
        return None
    first = _permutation(inner, len(between.shape))
    if first is None or outer is None:
        return _merged_blocks(call, outer, inner, first)
    axes = tuple(first[axis] for axis in outer)
    return inner.args[0] if axes == tuple(range(len(axes))) else call_op("transpose", inner.args[0], axes=axes)


def _permutation(call: Call, rank: int) -> tuple[int, ...] | None:
    """Return the operand dimension of each result dimension.

    Return None if blocks are split or joined.
    """
    if op_name(call) == "transpose":
        axes = attrs_of(call, TransposeAttrs).axes
        return tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes)
    source, target = _layouts(call)
    if sorted(source.axes) != sorted(target.axes):
        return None
    return tuple(source.axes.index(axis) for axis in target.axes)


def _layouts(call: Call) -> tuple[Layout, Layout]:
    attrs = attrs_of(call, LayoutTransformAttrs)
    return parse_layout(attrs.src_layout), parse_layout(attrs.dst_layout)


def _merged_blocks(
    call: Call, outer: tuple[int, ...] | None, inner: Call, first: tuple[int, ...] | None
) -> Expr | None:
    """Merge two layout changes, at least one of which has no permutation.

    Such a change splits or joins blocks.
    """
    if outer is not None:
        source, between = _layouts(inner)
        target = "".join(_axis_name(between.axes[axis]) for axis in outer)
        return _changed_layout(inner.args[0], source.name, target)
    between, target_layout = _layouts(call)
    if first is not None:
        origin = [between.axes[first.index(axis)] for axis in range(len(first))]
        return _changed_layout(inner.args[0], "".join(_axis_name(axis) for axis in origin), target_layout.name)
    source, inner_target = _layouts(inner)
    return _changed_layout(inner.args[0], source.name, target_layout.name) if inner_target == between else None


def _axis_name(axis: tuple[str, int]) -> str:
    letter, size = axis
    return f"{size}{letter}" if letter.islower() else letter


def _changed_layout(expr: Expr, source: str, target: str) -> Expr:
    return expr if source == target else call_op("layout_transform", expr, src_layout=source, dst_layout=target)


def _filled(value: float) -> Rule:
    """Return the rule for `zeros_like` and `ones_like`."""

    def rule(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
        if not ty.is_static:
            return None
        return call_op("ones" if value else "zeros", shape=ty.concrete_shape, dtype=ty.dtype)

    return rule


def _full_like(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    return call_op("full", call.args[1], shape=ty.concrete_shape, dtype=ty.dtype) if ty.is_static else None


def _broadcast_to_like(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    return call_op("broadcast_to", call.args[0], shape=ty.concrete_shape) if ty.is_static else None


def _reshape_like(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    return call_op("reshape", call.args[0], newshape=ty.concrete_shape) if _can_be_newshape(ty) else None


def _collapse_sum_like(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    return collapse_sum_to(call.args[0], ty.concrete_shape) if ty.is_static else None


def _with_full(call: Call, ty: TensorType, type_of: TypeOf) -> Expr | None:
    """Replace an operand that is full of a constant by a scalar.

    The other operand must have the type of the result.
    """
    if not isinstance(call.op, Op) or call.op.get_attr("TOpPattern") != OpPattern.BROADCAST or len(call.args) != 2:
        return None
    if not ty.is_static or call.op.name in _ON_VECTORS:
        return None
    for position, arg in enumerate(call.args):
        scalar = _scalar_of(arg, type_of(arg))
        if scalar is not None and type_of(call.args[1 - position]) == ty:
            args = [scalar if index == position else operand for index, operand in enumerate(call.args)]
            return Call(call.op, args, call.attrs, span=call.span)
    return None


def _scalar_of(expr: Expr, ty: TensorType | None) -> Constant | None:
    """Return the constant that fills a tensor, of the same element type."""
    name = op_name(expr)
    if ty is None or not isinstance(expr, Call):
        return None
    if name in {"zeros", "ones"}:
        return Constant(np.asarray(int(name == "ones"), ty.dtype))
    value = expr.args[0] if name == "full" else None
    return Constant(value.data.numpy().astype(ty.dtype)) if isinstance(value, Constant) else None


_ON_VECTORS: Final = frozenset({"nn.bias_add", "nn.prelu"})
"""Operators on a vector, which a scalar cannot replace.

TVM 0.8 replaces it, and its result is ill-typed.
"""

RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    "add": (_identity(0, either=True),),
    "subtract": (_identity(0, either=False),),
    "multiply": (_identity(1, either=True),),
    "divide": (_identity(1, either=False),),
    "reshape": (_reshape_of_reshape,),
    "contrib_reverse_reshape": (_reshape_of_reshape,),
    "cast": (_same_dtype,),
    "cast_like": (_same_dtype,),
    "transpose": (_transpose,),
    "layout_transform": (_transpose,),
    "zeros_like": (_filled(0),),
    "ones_like": (_filled(1),),
    "full_like": (_full_like,),
    "reshape_like": (_reshape_like,),
    "broadcast_to_like": (_broadcast_to_like,),
    "collapse_sum_like": (_collapse_sum_like,),
}
"""The rules for each operator, tried in order."""
