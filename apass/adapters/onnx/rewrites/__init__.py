"""Passes that make a model smaller by rules for its nodes.

Each rewrite is a rule for one operator. `Simplify` applies all exact rules in one pass over the nodes, because they
enable each other: a folded shape turns a Reshape into a no-op, whose removal joins two Transposes.
"""

from typing import ClassVar

from apass.adapters.onnx.rewrites.activations import ACTIVATIONS
from apass.adapters.onnx.rewrites.axes import AXES
from apass.adapters.onnx.rewrites.constant_folding import FOLDING
from apass.adapters.onnx.rewrites.control_flow import BRANCHES, CONDITIONS
from apass.adapters.onnx.rewrites.engine import RewritePass, Rule, Rules
from apass.adapters.onnx.rewrites.fusions import FUSIONS
from apass.adapters.onnx.rewrites.merging import MERGES
from apass.adapters.onnx.rewrites.noop_elimination import NO_OPS
from apass.adapters.onnx.rewrites.ranks import RANKS
from apass.adapters.onnx.rewrites.recurrent import RECURRENT
from apass.adapters.onnx.rewrites.sizes import SIZES
from apass.adapters.onnx.rewrites.weights import WEIGHTS

__all__ = ["FusePass", "SimplifyPass"]


def _joined(*tables: Rules) -> Rules:
    result: dict[str, tuple[Rule, ...]] = {}
    for table in tables:
        for operator, rules in table.items():
            result[operator] = result.get(operator, ()) + rules
    return result


class SimplifyPass(RewritePass):
    """Fold constants, remove nodes without effect, and merge nodes, exactly.

    The results are equal bit by bit.

    Parameters:
        max_bytes: maximum size in bytes of one constant that is read or computed.

    """

    rules: ClassVar[Rules] = _joined(FOLDING, NO_OPS, MERGES, AXES, CONDITIONS, RANKS, RECURRENT, SIZES)
    first: ClassVar[Rules] = BRANCHES


class FusePass(RewritePass):
    """Fuse nodes in ways that change last digits.

    Parameters:
        max_bytes: maximum size in bytes of one constant that is read or computed.

    """

    rules: ClassVar[Rules] = _joined(ACTIVATIONS, WEIGHTS, FUSIONS)
