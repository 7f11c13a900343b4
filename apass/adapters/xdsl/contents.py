"""Comparison of operations before and after a pass."""

from xdsl.ir import Block, Operation, Region, SSAValue

__all__ = ["Comparison", "same_contents"]


def same_contents(a: Operation, b: Operation) -> bool:
    """Return whether two operations have the same contents, names and locations."""
    return Comparison().same(a, b)


class Comparison:
    """Compares operations with their copies, up to the first difference.

    The names of values and blocks and the locations count. It remembers which values correspond to each other, for the
    next operations of the same block.
    """

    # Fingerprints take ten times as long, because they print attributes. An unchanged attribute is the same object.

    def __init__(self) -> None:
        self._values: dict[SSAValue, SSAValue] = {}
        self._blocks: dict[Block, Block] = {}

    def same(self, a: Operation, b: Operation) -> bool:
        """Return whether two operations have the same contents."""
        return (
            a.name == b.name
            and len(a.operands) == len(b.operands)
            and all(map(self._same_value, a.operands, b.operands))
            and self._same_results(a, b)
            and a.properties == b.properties
            and a.attributes == b.attributes
            and a.location == b.location
            and len(a.successors) == len(b.successors)
            and all(map(self._same_block, a.successors, b.successors))
            and len(a.regions) == len(b.regions)
            and all(map(self._same_region, a.regions, b.regions))
        )

    def _same_region(self, a: Region, b: Region) -> bool:
        return len(a.blocks) == len(b.blocks) and all(map(self._same_contents, a.blocks, b.blocks))

    def _same_contents(self, a: Block, b: Block) -> bool:
        if not self._same_block(a, b) or a.name_hint != b.name_hint or len(a.args) != len(b.args):
            return False
        for value, other in zip(a.args, b.args, strict=True):
            if not self._same_definition(value, other) or value.location != other.location:
                return False
        left, right = a.first_op, b.first_op
        while left is not None and right is not None:
            if not self.same(left, right):
                return False
            left, right = left.next_op, right.next_op
        return left is None and right is None

    def _same_results(self, a: Operation, b: Operation) -> bool:
        return len(a.results) == len(b.results) and all(map(self._same_definition, a.results, b.results))

    def _same_definition(self, a: SSAValue, b: SSAValue) -> bool:
        return self._same_value(a, b) and a.name_hint == b.name_hint and a.type == b.type

    def _same_value(self, a: SSAValue, b: SSAValue) -> bool:
        return self._values.setdefault(a, b) is b

    def _same_block(self, a: Block, b: Block) -> bool:
        return self._blocks.setdefault(a, b) is b
