"""`Growth`: whether a model becomes larger if a computed constant is stored."""

from collections import Counter
from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.facts import Facts, constant_tensor
from apass.adapters.onnx.rewrites.kernels import KERNELS

__all__ = ["SMALL", "Growth"]

SMALL: Final = 128
"""Number of bytes by which a constant may exceed those that it replaces. The removed node takes about as many."""

MAX_SOURCES: Final = 256
"""Maximum number of values that are read to find the constants from which another one is computed."""

_GROWING: Final = frozenset({"Cast", "CastLike", "Expand", "Pad", "Tile"})
"""Operators whose results may be larger than their operands, so that they may not be stored."""


class Growth:
    """Decides whether computed constants replace those that they are computed from.

    A transposed weight replaces the original, if no other node uses that. An int8 weight that is cast to float is four
    times as large. Weights that both branches of an If slice would be stored twice.

    Parameters:
        facts: the constants of the graph.

    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._spent: Counter[ir.Value] = Counter()
        """Bytes of the constants that replace each source."""

    def allows(self, node: ir.Node, size: int) -> bool:
        """Return whether the results of a node may be stored, and record that they are.

        Parameters:
            node: a node with constant results.
            size: the number of bytes of the results.

        """
        if size <= SMALL:
            return True
        sources = self._sources(node)
        rooms = {
            source: tensor.nbytes - self._spent[source] for source, tensor in sources.items() if self._ends(source)
        }
        if size > sum(rooms.values()) + SMALL:
            return False
        for source, room in rooms.items():
            taken = min(room, size)
            self._spent[source] += taken
            size -= taken
        return True

    def _sources(self, node: ir.Node) -> dict[ir.Value, ir.TensorProtocol]:
        """Return the stored constants from which the results of a node are computed."""
        found: dict[ir.Value, ir.TensorProtocol] = {}
        waiting = [value for value in node.inputs if value is not None]
        for value in waiting:  # the list grows in the loop
            tensor, before = constant_tensor(value), value.producer()
            if tensor is not None:
                found[value] = tensor
            elif before is not None and len(waiting) < MAX_SOURCES:
                waiting += [item for item in before.inputs if item is not None]
        return found

    def _ends(self, source: ir.Value) -> bool:
        """Return whether nothing needs a constant any more after all folding."""
        if source.is_graph_output():
            return False
        # The nodes that come later are not evaluated yet, but their operands show that they will be.
        return all(
            use.node.op_type in KERNELS
            and use.node.op_type not in _GROWING
            and all(value is None or self._facts.constant(value) is not None for value in use.node.inputs)
            for use in source.uses()
        )
