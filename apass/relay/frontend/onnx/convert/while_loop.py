"""Loops with a number of steps known only at run time, as recursive functions."""

from collections.abc import Sequence

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.facts import join_types
from apass.relay.frontend.onnx.node import Node, Subgraph
from apass.relay.ir.expr import Call, Constant, Expr, If, Let, Tuple, TupleGetItem, Var, const
from apass.relay.ir.function import Function
from apass.relay.ir.ty import Any, FuncType, TensorType, TupleType, Type

__all__ = ["while_loop"]


def while_loop(
    node: Node, body: Subgraph, limit: Expr | None, start: Expr, carried: Sequence[Expr], is_conditional: bool
) -> list[Expr]:
    """Return the outputs of an ONNX Loop: final carried values and collected rows.

    The body becomes a local function of the step, the condition, the carried values and the collected rows.
    """
    types = _stable_types(node, body, [node.facts.type_of(value) for value in carried])
    params = _params(node, types)
    step, condition, *states = params
    results = body(step, condition, *states)
    rows = results[1 + len(carried) :]
    collected = [Var(f"rows{index}", _of_rows(node, row)) for index, row in enumerate(rows)]
    grown = [
        op.concatenate([previous, op.expand_dims(row, axis=0)], axis=0)
        for previous, row in zip(collected, rows, strict=True)
    ]
    result_type = TupleType([*types, *(param.checked_type for param in collected)])
    func_params = [*params, *collected]
    func_type = FuncType([param.checked_type for param in func_params], result_type)
    recursion = Var("loop", func_type)
    after = results[0] if is_conditional else Constant(np.asarray(True))
    following = [op.add(step, const(1, "int64")), op.reshape(after, ()), *results[1 : 1 + len(carried)], *grown]
    is_running = condition if limit is None else op.logical_and(condition, op.less(step, limit))
    iteration = If(is_running, Call(recursion, following), Tuple([*states, *collected]))
    empty = [Constant(np.zeros((0, *node.static_shape(row)), node.dtype(row))) for row in rows]
    first = Call(recursion, [const(0, "int64"), start, *carried, *empty])
    result = Let(recursion, Function(func_params, iteration, result_type), first)
    # Type relations do not cover functions, so the type of the Let is declared.
    node.facts.declare(result, result_type)
    return [TupleGetItem(result, index) for index in range(len(result_type.fields))]


def _params(node: Node, types: Sequence[Type]) -> list[Var]:
    step, condition = Var("step", TensorType((), "int64")), Var("is_running", TensorType((), "bool"))
    return [step, condition, *(Var(f"carried{index}", ty) for index, ty in enumerate(types))]


def _stable_types(node: Node, body: Subgraph, types: list[Type]) -> list[Type]:
    """Return types of carried values that hold in every step.

    Dimensions that change become unknown.
    """
    while True:
        results = body(*_params(node, types))
        after = [node.facts.type_of(value) for value in results[1 : 1 + len(types)]]
        try:
            wider = [join_types(*pair) for pair in zip(types, after, strict=True)]
        except ValueError as error:
            raise node.unsupported(f"a carried value changes its type: {error}") from error
        if wider == types:
            return types
        types = wider


def _of_rows(node: Node, row: Expr) -> TensorType:
    ty = node.type_of(row)
    return TensorType((Any(), *ty.shape), ty.dtype)
