"""Branches of an If that cannot run, because a node after it would fail.

PyTorch exports `squeeze` as an If that removes an axis of size 1, and keeps the operand otherwise. The two results have
different ranks. If an LSTM follows, which takes three axes, only one of the branches leads to a result.
"""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.control_flow import inline_branch
from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts, Ranks, is_onnx

__all__ = ["RANKS"]

MAX_DEPTH: Final = 8
"""Maximum number of nodes between an If and the node that fails."""


def _drop_failing_branch(node: ir.Node, context: Context) -> bool:
    """Replace an If by one branch, if a node after it would fail for the other one."""
    facts = context.facts
    fails = {
        name: any(
            _fails(value, facts.ranks(result), node, facts, MAX_DEPTH)
            for value, result in zip(node.outputs, node.attributes[name].as_graph().outputs, strict=False)
        )
        for name in ("then_branch", "else_branch")
    }
    if fails["then_branch"] == fails["else_branch"]:
        return False
    taken = "else_branch" if fails["then_branch"] else "then_branch"
    condition = node.inputs[0]
    before = None if condition is None else condition.producer()
    # In a branch of another If, the condition of the outer graph may be different where this branch does not run.
    if condition is not None and before is not None and before.graph is node.graph:
        facts.assume(condition, holds=taken == "then_branch")
    return inline_branch(node, taken, context)


def _fails(value: ir.Value, ranks: Ranks, source: ir.Node, facts: Facts, depth: int) -> bool:
    """Return whether a node certainly fails if a value has one of these ranks."""
    if ranks is None or not depth:
        return False
    for use in value.uses():
        node = use.node
        # A node in a subgraph may not run.
        if node.graph is not source.graph or not is_onnx(node):
            continue
        required = _required(node, use.idx, facts)
        fitting = ranks if required is None else ranks & required
        if not fitting:
            return True
        result = facts.ranks_after(node, fitting) if use.idx == 0 else None
        if _fails(node.outputs[0], result, source, facts, depth - 1):
            return True
    return False


def _required(node: ir.Node, index: int, facts: Facts) -> Ranks:
    """Return the ranks that an operand must have, or None."""
    match node.op_type:
        case "GRU" | "LSTM" | "RNN" if index in (0, 1, 2, 5, 6):
            return frozenset({3})
        case "Gemm" if index < 2:
            return frozenset({2})
        case "Transpose":
            perm = attributes(node).get("perm")
            return None if perm is None else frozenset({len(perm)})
        case "Conv" if index == 0:
            return facts.ranks(node.inputs[1])
        case "Concat":
            others = [facts.ranks(value) for other, value in enumerate(node.inputs) if other != index]
            return next((ranks for ranks in others if ranks is not None and len(ranks) == 1), None)
        case _:
            return None


RANKS: Final[Rules] = {"If": (_drop_failing_branch,)}
"""Rules that keep all bits of each result; a run that failed may fail elsewhere."""
