"""Loops of which it is not known how often they run: functions that call themselves."""

from collections.abc import Sequence

import numpy as np

from apass.relay import op
from apass.relay.expr import Call, Constant, Expr, If, Let, Tuple, TupleGetItem, Var
from apass.relay.frontend.onnx.facts import joined
from apass.relay.frontend.onnx.node import Node, Subgraph
from apass.relay.function import Function
from apass.relay.make import const
from apass.relay.ty import Any, FuncType, TensorType, TupleType, Type

__all__ = ["while_loop"]


def while_loop(
    node: Node, body: Subgraph, limit: Expr | None, start: Expr, carried: Sequence[Expr], is_conditional: bool
) -> list[Expr]:
    """Return the outputs of ONNX's Loop: the last values that are carried, and what the steps have collected.

    The body becomes a local function of the step, the condition, what is carried and what is collected.
    """
    types = _settled(node, body, [node.facts.type_of(one) for one in carried])
    params = _params(node, types)
    step, condition, *states = params
    results = body(step, condition, *states)
    rows = results[1 + len(carried) :]
    collected = [Var(f"rows{place}", _of_rows(node, one)) for place, one in enumerate(rows)]
    grown = [
        op.concatenate([so_far, op.expand_dims(row, axis=0)], axis=0)
        for so_far, row in zip(collected, rows, strict=True)
    ]
    result_type = TupleType([*types, *(one.checked_type for one in collected)])
    func_params = [*params, *collected]
    func_type = FuncType([one.checked_type for one in func_params], result_type)
    again = Var("loop", func_type)
    after = results[0] if is_conditional else Constant(np.asarray(True))
    following = [op.add(step, const(1, "int64")), op.reshape(after, ()), *results[1 : 1 + len(carried)], *grown]
    goes_on = condition if limit is None else op.logical_and(condition, op.less(step, limit))
    turn = If(goes_on, Call(again, following), Tuple([*states, *collected]))
    empty = [Constant(np.zeros(_empty_shape(node, one), node.dtype(one))) for one in rows]
    first = Call(again, [const(0, "int64"), start, *carried, *empty])
    whole = Let(again, Function(func_params, turn, result_type), first)
    node.facts.declare(whole, result_type)
    return [TupleGetItem(whole, place) for place in range(len(result_type.fields))]


def _params(node: Node, types: Sequence[Type]) -> list[Var]:
    step, condition = Var("step", TensorType((), "int64")), Var("goes_on", TensorType((), "bool"))
    return [step, condition, *(Var(f"carried{place}", ty) for place, ty in enumerate(types))]


def _settled(node: Node, body: Subgraph, types: list[Type]) -> list[Type]:
    """Return types that what is carried has in every step: dimensions that change are not known."""
    while True:
        results = body(*_params(node, types))
        after = [node.facts.type_of(one) for one in results[1 : 1 + len(types)]]
        try:
            wider = [joined(*pair) for pair in zip(types, after, strict=True)]
        except ValueError as error:
            raise node.unsupported(f"what it carries changes: {error}") from error
        if wider == types:
            return types
        types = wider


def _of_rows(node: Node, row: Expr) -> TensorType:
    ty = node.type_of(row)
    return TensorType((Any(), *ty.shape), ty.dtype)


def _empty_shape(node: Node, row: Expr) -> tuple[int, ...]:
    return (0, *node.static_shape(row))
