"""Control flow: If, Loop and Scan."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.convert.while_loop import while_loop
from apass.relay.frontend.onnx.facts import join_types
from apass.relay.frontend.onnx.node import Node, Subgraph, Table
from apass.relay.ir.expr import Constant, Expr, If, Tuple, TupleGetItem

__all__ = ["TABLE"]

UNROLL_LIMIT: Final = 512
"""The largest number of steps of a loop that is unrolled."""


def branch(node: Node) -> Sequence[Expr]:
    """Return the outputs of one of two graphs.

    If the condition is known at import, only its branch is translated. Otherwise the result is Relay's If.
    """
    condition = node.constant_value(node[0])
    if condition is not None:
        return node.subgraph("then_branch" if condition.any() else "else_branch")()
    branches = [node.subgraph(name)() for name in ("then_branch", "else_branch")]
    then, other = (outputs[0] if len(outputs) == 1 else Tuple(outputs) for outputs in branches)
    try:
        join_types(node.facts.type_of(then), node.facts.type_of(other))
    except ValueError as error:
        raise node.unsupported(f"its branches have different types: {error}") from error
    choice = If(scalar(node, node[0]), then, other)
    count = len(branches[0])
    return [choice] if count == 1 else [TupleGetItem(choice, index) for index in range(count)]


def scalar(node: Node, condition: Expr) -> Expr:
    """Return a condition as a scalar."""
    return op.reshape(condition, ()) if node.rank(condition) else condition


def loop(node: Node) -> Sequence[Expr]:
    """Return the outputs of a loop.

    It is unrolled if the number of steps is known at import, and otherwise becomes a recursive function.
    """
    unrolled = _unrolled_loop(node)
    if unrolled is not None:
        return unrolled
    trips, condition = node.get(0), node.get(1)
    start = Constant(np.asarray(True)) if condition is None else scalar(node, condition)
    limit = None if trips is None else scalar(node, trips)
    return while_loop(node, node.subgraph("body"), limit, start, _carried(node), condition is not None)


def _carried(node: Node) -> list[Expr]:
    return [node[index] for index in range(2, len(node.inputs))]


def _unrolled_loop(node: Node) -> Sequence[Expr] | None:
    """Return the outputs of an unrolled loop, or None if its end is not known."""
    trips, start = (node.constant_value(node.get(index)) for index in range(2))
    if (node.get(0) is not None and trips is None) or (node.get(1) is not None and start is None):
        return None
    limit = UNROLL_LIMIT + 1 if trips is None else int(trips.reshape(-1).tolist()[0])
    body, carried = node.subgraph("body"), _carried(node)
    is_running = start is None or bool(start.any())
    rows: list[list[Expr]] = []
    while is_running and len(rows) < limit:
        if len(rows) == UNROLL_LIMIT:
            return None
        results = body(Constant(np.asarray(len(rows), "int64")), Constant(np.asarray(True)), *carried)
        condition = node.constant_value(results[0])
        if start is not None and condition is None:
            return None
        is_running = start is None or condition is None or bool(condition.any())
        rows.append(results[1 + len(carried) :])
        carried = results[1 : 1 + len(carried)]
    if not rows:
        return [*carried, *_empty_rows(node, body, carried)]
    return [*carried, *(op.stack(list(column), axis=0) for column in zip(*rows, strict=True))]


def _empty_rows(node: Node, body: Subgraph, carried: Sequence[Expr]) -> list[Expr]:
    """Return the collected outputs of a loop without steps."""
    # Translate the body once for the types of its outputs.
    results = body(Constant(np.asarray(0, "int64")), Constant(np.asarray(True)), *carried)
    types = [node.type_of(row) for row in results[1 + len(carried) :]]
    return [
        Constant(np.zeros((0, *(dim if isinstance(dim, int) else 0 for dim in ty.shape)), ty.dtype)) for ty in types
    ]


def scan(node: Node) -> Sequence[Expr]:
    """Return the outputs of a scan over slices of inputs, unrolled."""
    return _scanned(node, node.subgraph("body"), node.present_inputs(), node.integer("num_scan_inputs"))


def _scanned(node: Node, body: Subgraph, operands: Sequence[Expr], count: int) -> list[Expr]:
    states, inputs = list(operands[: len(operands) - count]), operands[len(operands) - count :]
    in_axes = node.integers("scan_input_axes") or (0,) * count
    backwards = node.integers("scan_input_directions") or node.integers("directions") or (0,) * count
    axes = [node.normal_axis(axis, node.rank(data)) for axis, data in zip(in_axes, inputs, strict=True)]
    length = node.static_dim(inputs[0], axes[0])
    rows: list[list[Expr]] = []
    for step in range(length):
        indices = [length - 1 - step if is_backward else step for is_backward in backwards]
        slices = [_slice(node, *operand) for operand in zip(inputs, axes, indices, strict=True)]
        results = body(*states, *slices)
        rows.append(results[len(states) :])
        states = results[: len(states)]
    return [*states, *_collected(node, rows)]


def _slice(node: Node, data: Expr, axis: int, index: int) -> Expr:
    return op.squeeze(sliced(node, data, [index], [index + 1], [axis], None), axis=[axis])


def _collected(node: Node, rows: Sequence[Sequence[Expr]]) -> list[Expr]:
    if not rows:
        raise node.unsupported("the scanned axis must not be empty")
    count = len(rows[0])
    axes = node.integers("scan_output_axes") or (0,) * count
    backwards = node.integers("scan_output_directions") or (0,) * count
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [
        op.stack(column[::-1] if is_backward else column, axis=node.normal_axis(axis, node.rank(column[0]) + 1))
        for column, axis, is_backward in zip(columns, axes, backwards, strict=True)
    ]


def scan_of_batch(node: Node) -> Sequence[Expr]:
    """Return the outputs of a scan for each sequence of a batch, as in version 8."""
    if node.get(0) is not None:
        raise node.unsupported("sequences of different lengths are not supported")
    operands = [node[index] for index in range(1, len(node.inputs))]
    batch = node.static_dim(operands[0], 0)
    count, body = node.integer("num_scan_inputs"), node.subgraph("body")
    runs = [_scanned(node, body, [_slice(node, data, 0, index) for data in operands], count) for index in range(batch)]
    return [op.stack(list(column), axis=0) for column in zip(*runs, strict=True)]


TABLE: Final[Table] = {
    ("", "If", 1): branch,
    ("", "Loop", 1): loop,
    ("", "Scan", 8): scan_of_batch,
    ("", "Scan", 9): scan,
}
"""The converters of this module."""
