"""`FusionGroups`: which results are computed together; the algorithm of TVM's `GraphPartitioner`."""

from collections.abc import Callable
from typing import TypeAlias

from apass.relay.dataflow.dominators import NOWHERE, DominatorTree
from apass.relay.op.define.registry import OpPattern
from apass.relay.transform.fuse_ops.graph import FusionGraph

__all__ = ["FusionGroups"]

_Condition: TypeAlias = Callable[[int, bool], bool]
"""Whether a group of a pattern may be on the way: `condition(pattern, is_end)`."""


class FusionGroups:
    """The results of a graph put together in groups, each computed by one function: its root, the last, is the result.

    A result joins the group of its post-dominator, with all between the two, if the operators allow. First
    complex operators take in the elementwise ones that follow; then injective ones join; then injective ones
    join tuples that have joined something.
    """

    def __init__(self, graph: FusionGraph, opt_level: int, max_depth: int) -> None:
        """Find the groups: each result by itself at level 0, none of more than `max_depth` results."""
        size = len(graph.nodes)
        self._graph = graph
        self._max_depth = max_depth
        self._parent = list(range(size))
        self._patterns = list(graph.patterns)
        self._has_anchor = [pattern == OpPattern.OUT_ELEMWISE_FUSABLE for pattern in graph.patterns]
        self._sizes = [1] * size
        if opt_level == 0:
            return
        tree = graph.post_dominators()
        for phase in (self._fuse_simple, self._fuse_injective, self._fuse_into_tuples):
            self._run(phase, tree)

    def root(self, number: int) -> int:
        """Return the root of the group that a result is in."""
        parent = self._parent
        root = number
        while parent[root] != root:
            root = parent[root]
        while parent[number] != root:
            parent[number], number = root, parent[number]
        return root

    def _run(self, phase: Callable[[int, int, int], None], tree: DominatorTree) -> None:
        """Try to join each result with its post-dominator."""
        for number in range(len(self._parent)):
            end = tree.parent(number)
            is_candidate = self._patterns[number] != OpPattern.OPAQUE and end != NOWHERE
            if is_candidate and self._size_with(number, end) <= self._max_depth:
                phase(number, end, tree.weight(number))

    def _fuse_simple(self, number: int, end: int, way: int) -> None:
        """Join a complex operator with the elementwise ones after it, an elementwise one with what it leads to."""
        pattern = self._patterns[number]
        if self._is_done(number, end):
            return
        if pattern == OpPattern.OUT_ELEMWISE_FUSABLE and way == OpPattern.ELEMWISE:
            self._join(number, end, lambda kind, _: kind <= OpPattern.BROADCAST)
        elif pattern <= OpPattern.BROADCAST:
            self._fuse_broadcast(number, end, way)

    def _fuse_injective(self, number: int, end: int, way: int) -> None:
        """Join injective operators and tuples with what is injective; elementwise ones once more, as before."""
        pattern = self._patterns[number]
        if self._is_done(number, end):
            return
        if pattern in (OpPattern.INJECTIVE, OpPattern.TUPLE):
            self._join(number, end, _is_injective)
        elif pattern <= OpPattern.BROADCAST:
            self._fuse_broadcast(number, end, way)

    def _fuse_broadcast(self, number: int, end: int, way: int) -> None:
        if way <= OpPattern.INJECTIVE or way == OpPattern.COMM_REDUCE:
            self._join(number, end, _takes_broadcast)

    def _fuse_into_tuples(self, number: int, end: int, way: int) -> None:
        """Join injective operators with tuples that are no results themselves."""
        kind = self._patterns[self.root(end)]
        if self._patterns[number] > OpPattern.INJECTIVE or self._patterns[end] != OpPattern.TUPLE:
            return
        if kind <= OpPattern.INJECTIVE:
            self._join(number, end, _is_injective)

    def _is_done(self, number: int, end: int) -> bool:
        """Tell whether a result need not join: it has, or it would join a tuple, which is for later."""
        return self.root(number) == self.root(end) or self._patterns[end] == OpPattern.TUPLE

    def _join(self, number: int, end: int, condition: _Condition) -> None:
        """Put a result, and all between, into the group of its post-dominator if the groups on the way fit."""
        between = self._between(number, end)
        fits = all(condition(self._patterns[self.root(one)], False) for one in between if one != number)
        if fits and condition(self._patterns[self.root(end)], True):
            for one in between:
                self._merge(self.root(one), self.root(end))

    def _between(self, number: int, end: int) -> list[int]:
        """Return a result and all on its ways to its post-dominator, which is left out."""
        found = {number: None}
        work = [number]
        while work:
            for user, _ in self._graph.users[work.pop()]:
                if user != end and user not in found:
                    found[user] = None
                    work.append(user)
        return list(found)

    def _merge(self, root: int, into: int) -> None:
        if root == into:
            return
        self._sizes[into] += self._sizes[root]
        self._parent[root] = into
        if self._has_anchor[root]:
            self._has_anchor[into] = True
            self._patterns[into] = max(self._patterns[root], self._patterns[into])

    def _size_with(self, number: int, end: int) -> int:
        """Return the size of the post-dominator's group if all from a result on joined it, or any number too large."""
        total = self._sizes[self.root(end)]
        seen = {number}
        work = [number]
        while work and total <= self._max_depth:
            one = work.pop()
            total += self._sizes[one]
            fresh = {user for user, _ in self._graph.users[one] if user != end} - seen
            seen |= fresh
            work += fresh
        return total


def _is_injective(kind: int, is_end: bool) -> bool:
    return kind <= OpPattern.INJECTIVE


def _takes_broadcast(kind: int, is_end: bool) -> bool:
    return kind <= (OpPattern.OUT_ELEMWISE_FUSABLE if is_end else OpPattern.INJECTIVE)
