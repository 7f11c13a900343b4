"""`recast`: compute some operators in other element types; TVM's `recast.py`."""

from collections.abc import Collection, Iterable
from typing import TypeVar, overload

from apass.relay.analysis.count_layers import count_layers
from apass.relay.ir.calls import call_op, op_name, tensor_type
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.infer import infer_expr
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["recast"]

ExprT = TypeVar("ExprT", bound=Expr)


@overload
def recast(
    expr: IRModule, dtype: str, out_dtype: str, ops: Collection[str] = ..., skip_layers: Iterable[int] = ...
) -> IRModule: ...
@overload
def recast(
    expr: Expr, dtype: str, out_dtype: str, ops: Collection[str] = ..., skip_layers: Iterable[int] = ...
) -> Expr: ...
def recast(
    expr: Expr | IRModule,
    dtype: str,
    out_dtype: str,
    ops: Collection[str] = ("nn.conv2d",),
    skip_layers: Iterable[int] = (),
) -> Expr | IRModule:
    """Return a program that computes some operators in another element type.

    The arguments of each call are cast to `dtype`, and its result to the element type that it had before. Use this to
    measure kernels: small numbers, cast to integers, become zeros.

    Parameters:
        expr: an expression, or a module whose `main` changes.
        dtype: the element type of the arguments.
        out_dtype: the value of the attribute `out_dtype` of operators that have it.
        ops: the names of the operators.
        skip_layers: calls that stay, as numbers of layers. A number from 0 counts from the first layer, a negative
            number from the last. The layers of a call are the calls of `ops` on the way to the result, through the
            first argument of each. TVM counts so.

    Raises:
        TypeInferenceError: if the program is ill-typed.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.nn.dense.dense import dense
    >>> x, w = var("x", shape=(2, 3)), var("w", shape=(4, 3))
    >>> print(recast(dense(x, w), "int8", "int32", ["nn.dense"]))
    free_var %x: Tensor[(2, 3), float32];
    free_var %w: Tensor[(4, 3), float32];
    %0 = cast(%x, dtype="int8");
    %1 = cast(%w, dtype="int8");
    %2 = nn.dense(%0, %1, units=None, out_dtype="int32");
    cast(%2, dtype="float32")
    """
    if isinstance(expr, IRModule):
        main = infer_expr(expr["main"], expr)
        return expr.with_functions({"main": _recast(main, dtype, out_dtype, ops, skip_layers)})
    return _recast(infer_expr(expr), dtype, out_dtype, ops, skip_layers)


def _recast(expr: Expr, dtype: str, out_dtype: str, ops: Collection[str], skip_layers: Iterable[int]) -> Expr:
    count = count_layers(expr, ops)
    skipped = {layer + count if layer < 0 else layer for layer in skip_layers}
    depths = _depths(expr, ops)
    chosen = {node for node, depth in depths.items() if op_name(node) in ops and count - depth - 1 not in skipped}
    return _Recaster(chosen, dtype, out_dtype).visit(expr)


def _depths(root: Expr, ops: Collection[str]) -> dict[Expr, int]:
    """Return the number of calls of `ops` between each expression and the root."""
    depths: dict[Expr, int] = {}
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if node in depths:
            continue
        depths[node] = depth
        is_layer = op_name(node) in ops
        first = node.args[0] if isinstance(node, Call) and node.args else None
        # As in TVM, only the first argument of a layer is in the layer before.
        stack += [(child, depth + (is_layer and child is first)) for child in reversed(node.children)]
    return depths


class _Recaster(ExprMutator, scopes_first=True):
    def __init__(self, chosen: Collection[Expr], dtype: str, out_dtype: str) -> None:
        super().__init__()
        self._chosen = chosen
        self._dtype = dtype
        self._out_dtype = out_dtype

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        if call not in self._chosen or not isinstance(new, Call):
            return new
        args = [call_op("cast", arg, dtype=self._dtype) for arg in new.args]
        attrs = call.attrs
        names = () if attrs is None else attrs.keys()
        if attrs is not None and "out_dtype" in names:
            attrs = attrs.replaced(out_dtype=self._out_dtype)
        result = Call(call.op, args, attrs, call.type_args, span=call.span)
        return call_op("cast", result, dtype=tensor_type(call).dtype)
