"""Branches, and graphs that are repeated."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.expr import Constant, Expr, If, Tuple, TupleGetItem
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.convert.while_loop import while_loop
from apass.relay.frontend.onnx.facts import joined
from apass.relay.frontend.onnx.node import Node, Subgraph, Table

__all__ = ["TABLE"]

UNROLL_LIMIT: Final = 512
"""Loops of a known number of steps are unrolled up to this many."""


def branch(node: Node) -> Sequence[Expr]:
    """Return the outputs of one of two graphs: now if it is known of which, else by Relay's If."""
    condition = node.known(node[0])
    if condition is not None:
        return node.subgraph("then_branch" if condition.any() else "else_branch")()
    branches = [node.subgraph(name)() for name in ("then_branch", "else_branch")]
    then, other = (one[0] if len(one) == 1 else Tuple(one) for one in branches)
    try:
        joined(node.facts.type_of(then), node.facts.type_of(other))
    except ValueError as error:
        raise node.unsupported(f"its branches do not agree: {error}") from error
    made = If(scalar(node, node[0]), then, other)
    return [made] if len(branches[0]) == 1 else [TupleGetItem(made, index) for index in range(len(branches[0]))]


def scalar(node: Node, condition: Expr) -> Expr:
    """Return a condition without dimensions."""
    return op.reshape(condition, ()) if node.rank(condition) else condition


def loop(node: Node) -> Sequence[Expr]:
    """Return the outputs of a graph that is repeated: unrolled if it is known how often, else by recursion."""
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
    """Return the outputs of a loop with all its steps; None if it is not known when it ends."""
    trips, start = (node.known(node.get(index)) for index in range(2))
    if (node.get(0) is not None and trips is None) or (node.get(1) is not None and start is None):
        return None
    limit = UNROLL_LIMIT + 1 if trips is None else int(trips.reshape(-1).tolist()[0])
    body, carried = node.subgraph("body"), _carried(node)
    is_on = start is None or bool(start.any())
    rows: list[list[Expr]] = []
    while is_on and len(rows) < limit:
        if len(rows) == UNROLL_LIMIT:
            return None
        results = body(Constant(np.asarray(len(rows), "int64")), Constant(np.asarray(True)), *carried)
        known = node.known(results[0])
        if start is not None and known is None:
            return None
        is_on = start is None or known is None or bool(known.any())
        rows.append(results[1 + len(carried) :])
        carried = results[1 : 1 + len(carried)]
    if not rows:
        return [*carried, *_nothing(node, body, carried)]
    return [*carried, *(op.stack(list(column), axis=0) for column in zip(*rows, strict=True))]


def _nothing(node: Node, body: Subgraph, carried: Sequence[Expr]) -> list[Expr]:
    """Return what a loop without steps has collected."""
    results = body(Constant(np.asarray(0, "int64")), Constant(np.asarray(True)), *carried)
    types = [node.type_of(one) for one in results[1 + len(carried) :]]
    return [
        Constant(np.zeros((0, *(dim if isinstance(dim, int) else 0 for dim in ty.shape)), ty.dtype)) for ty in types
    ]


def scan(node: Node) -> Sequence[Expr]:
    """Return the outputs of a graph that is repeated for each slice of some inputs, unrolled."""
    return _scanned(node, node.subgraph("body"), node.given(), node.integer("num_scan_inputs"))


def _scanned(node: Node, body: Subgraph, given: Sequence[Expr], count: int) -> list[Expr]:
    states, inputs = list(given[: len(given) - count]), given[len(given) - count :]
    in_axes = node.integers("scan_input_axes") or (0,) * count
    backwards = node.integers("scan_input_directions") or node.integers("directions") or (0,) * count
    axes = [node.normal_axis(axis, node.rank(one)) for axis, one in zip(in_axes, inputs, strict=True)]
    length = node.static_dim(inputs[0], axes[0])
    rows: list[list[Expr]] = []
    for step in range(length):
        places = [length - 1 - step if back else step for back in backwards]
        slices = [_slice(node, *one) for one in zip(inputs, axes, places, strict=True)]
        results = body(*states, *slices)
        rows.append(results[len(states) :])
        states = results[: len(states)]
    return [*states, *_collected(node, rows)]


def _slice(node: Node, data: Expr, axis: int, place: int) -> Expr:
    return op.squeeze(sliced(node, data, [place], [place + 1], [axis], None), axis=[axis])


def _collected(node: Node, rows: Sequence[Sequence[Expr]]) -> list[Expr]:
    if not rows:
        raise node.unsupported("it goes over nothing")
    count = len(rows[0])
    axes = node.integers("scan_output_axes") or (0,) * count
    backwards = node.integers("scan_output_directions") or (0,) * count
    columns = [list(column) for column in zip(*rows, strict=True)]
    return [
        op.stack(column[::-1] if back else column, axis=node.normal_axis(axis, node.rank(column[0]) + 1))
        for column, axis, back in zip(columns, axes, backwards, strict=True)
    ]


def scan_of_batch(node: Node) -> Sequence[Expr]:
    """Return `scan` for each entry of a batch, as version 8 has it."""
    if node.get(0) is not None:
        raise node.unsupported("its sequences have lengths of their own")
    given = [node[index] for index in range(1, len(node.inputs))]
    batch = node.static_dim(given[0], 0)
    count, body = node.integer("num_scan_inputs"), node.subgraph("body")
    runs = [_scanned(node, body, [_slice(node, one, 0, place) for one in given], count) for place in range(batch)]
    return [op.stack(list(column), axis=0) for column in zip(*runs, strict=True)]


TABLE: Final[Table] = {
    ("", "If", 1): branch,
    ("", "Loop", 1): loop,
    ("", "Scan", 8): scan_of_batch,
    ("", "Scan", 9): scan,
}
"""The converters of this module."""
