"""Which node of a function after a pass is which node before it."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from apass.adapters.nodes import Node

__all__ = ["Evidence", "Matching", "match_nodes"]

Evidence = Literal["identity", "name", "contents", "location"]
"""Why two nodes are taken for the same one."""


@dataclass(frozen=True, slots=True)
class Matching:
    """The nodes of a function after a pass, and the nodes before it that they were."""

    pairs: Mapping[int, tuple[int, Evidence]]
    """The index of the node before the pass, by that of the node after it."""
    changed: frozenset[int]
    """The indices, after the pass, of paired nodes whose text, operands or given name are others."""


def match_nodes(before: Sequence[Node], after: Sequence[Node]) -> Matching:
    """Return which nodes are the same ones.

    It takes time linear in the number of nodes. The evidence is tried in this order. The first two are exact, the
    others are heuristics.

    1. identity: the same object;
    2. name: the same given name;
    3. contents: the same text, and the same operands all the way up; then the same text and operands that are the same
       nodes; then the same text and location; then the same text. Of equal nodes, the first is paired with the first.
    4. location: the only node with this location before and after.

    >>> old = [Node(name="a", text="Relu"), Node(name="b", text="Relu", operands=("a",))]
    >>> new = [Node(name="b", text="Tanh", operands=("a",))]
    >>> match_nodes(old, new)
    Matching(pairs={0: (1, 'name')}, changed=frozenset({0}))

    """
    search = _Search(before, after)
    search.pair("identity", lambda nodes: [node.identity for node in nodes])
    search.pair("name", lambda nodes: [node.name if node.is_named else None for node in nodes])
    if search.is_open:
        search.pair("contents", _trees)
        search.pair_in_order()
        search.pair("contents", lambda nodes: [(node.text, node.location) if node.location else None for node in nodes])
        search.pair("contents", lambda nodes: [node.text for node in nodes])
        search.pair("location", _unique_locations)
    return search.result()


class _Search:
    """The pairs so far."""

    def __init__(self, before: Sequence[Node], after: Sequence[Node]) -> None:
        self._before, self._after = before, after
        self._pairs: dict[int, tuple[int, Evidence]] = {}
        self._partners: dict[int, int] = {}
        """The index after the pass, by that before it."""

    @property
    def is_open(self) -> bool:
        """Whether both sides have nodes without a partner."""
        return len(self._pairs) < min(len(self._before), len(self._after))

    def pair(self, evidence: Evidence, keys_of: Callable[[Sequence[Node]], Sequence[Hashable]]) -> None:
        """Pair the nodes with equal keys in order; a node whose key is None is left out."""
        waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
        for index, key in enumerate(keys_of(self._before)):
            if key is not None and index not in self._partners:
                waiting[key].append(index)
        if not waiting:
            return
        for indices in waiting.values():
            indices.reverse()
        for index, key in enumerate(keys_of(self._after)):
            partners = waiting.get(key) if key is not None and index not in self._pairs else None
            if partners:
                self._add(partners.pop(), index, evidence)

    def pair_in_order(self) -> None:
        """Pair the nodes with the same text whose operands are paired."""
        # Definitions precede uses, so the operands of a node are paired before it.
        references = _References(self._before)
        waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
        for index, node in reversed(list(enumerate(self._before))):
            if index not in self._partners and node.operands:
                waiting[node.text, references.of(node)].append(index)
        references = _References(self._after, self._pairs)
        for index, node in enumerate(self._after):
            if index in self._pairs or not node.operands:
                continue
            partners = waiting.get((node.text, references.of(node)))
            if partners:
                self._add(partners.pop(), index, "contents")

    def result(self) -> Matching:
        """Return the pairs, and those that differ."""
        old_references, new_references = _References(self._before), _References(self._after, self._pairs)
        changed: set[int] = set()
        for index, (other, evidence) in self._pairs.items():
            new, old = self._after[index], self._before[other]
            is_renamed = (new.is_named or old.is_named) and new.name != old.name
            # The same object has the same text and the same operands.
            is_other = evidence != "identity" and (
                new.text != old.text or new_references.of(new) != old_references.of(old)
            )
            if is_renamed or is_other:
                changed.add(index)
        return Matching(self._pairs, frozenset(changed))

    def _add(self, old: int, new: int, evidence: Evidence) -> None:
        self._pairs[new] = (old, evidence)
        self._partners[old] = new


class _References:
    """The references of operands, comparable before and after a pass.

    A value with a given name is that name. Any other is a result of the node that made it: of its partner before the
    pass, if `pairs` are given.
    """

    def __init__(self, nodes: Sequence[Node], pairs: Mapping[int, tuple[int, Evidence]] | None = None) -> None:
        self._values = _values(nodes)
        self._pairs = pairs

    def of(self, node: Node) -> tuple[Hashable, ...]:
        """Return the references of the operands of a node."""
        return tuple(map(self._reference, node.operands))

    def _reference(self, name: str) -> Hashable:
        value = self._values.get(name)
        if value is None:
            return name
        if self._pairs is None:
            return value
        partner = self._pairs.get(value[0])
        # A node that is new is no operand of any node before the pass.
        return ("new", *value) if partner is None else (partner[0], value[1])


def _values(nodes: Sequence[Node]) -> dict[str, tuple[int, int]]:
    """Return the node and the number of each result without a given name."""
    return {
        name: (index, number)
        for index, node in enumerate(nodes)
        if not node.is_named
        for number, name in enumerate(node.results)
    }


def _trees(nodes: Sequence[Node]) -> Sequence[Hashable]:
    """Return a key for each node that is equal for equal trees of operands."""
    values, keys = _values(nodes), list[int]()

    def key_of(name: str) -> Hashable:
        value = values.get(name)
        if value is None:
            return name
        # An operand that is defined later, as in a loop, does not count.
        return (keys[value[0]], value[1]) if value[0] < len(keys) else None

    for node in nodes:
        keys.append(hash((node.text, *map(key_of, node.operands))))
    return keys


def _unique_locations(nodes: Sequence[Node]) -> Sequence[Hashable]:
    counts: defaultdict[str, int] = defaultdict(int)
    for node in nodes:
        counts[node.location] += 1
    return [node.location if node.location and counts[node.location] == 1 else None for node in nodes]
