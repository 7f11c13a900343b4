"""`FusionGroups`: results to compute together; TVM's `GraphPartitioner`."""

from collections.abc import Callable
from typing import TypeAlias

from apass.relay.dataflow.dominators import NOWHERE, DominatorTree
from apass.relay.op.define.registry import OpPattern
from apass.relay.transform.fuse_ops.graph import FusionGraph

__all__ = ["FusionGroups"]

_Condition: TypeAlias = Callable[[int, bool], bool]
"""Returns whether a path may contain a group of a pattern: `condition(pattern, is_end)`."""


class FusionGroups:
    """The partition of results into groups, each computed by one function.

    The root of a group, its last result, is the result of the function. A result joins the group of its
    post-dominator, together with all results between the two, if their operators allow it. There are three phases:

    1. Complex operators absorb the elementwise operators that follow them.
    2. Injective operators join.
    3. Injective operators join tuples that have joined a group.
    """

    def __init__(self, graph: FusionGraph, opt_level: int, max_depth: int) -> None:
        """Compute the groups, of one result at level 0, else of up to `max_depth` results."""
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
        """Return the root of the group of a result."""
        # Union-find with path compression.
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

    def _fuse_simple(self, number: int, end: int, path: int) -> None:
        """Fuse complex operators with elementwise ones that follow them.

        Elementwise operators are fused with their users.
        """
        pattern = self._patterns[number]
        if self._is_done(number, end):
            return
        if pattern == OpPattern.OUT_ELEMWISE_FUSABLE and path == OpPattern.ELEMWISE:
            self._join(number, end, lambda kind, _: kind <= OpPattern.BROADCAST)
        elif pattern <= OpPattern.BROADCAST:
            self._fuse_broadcast(number, end, path)

    def _fuse_injective(self, number: int, end: int, path: int) -> None:
        """Fuse injective operators and tuples with injective users.

        Elementwise operators that did not join in the first phase are tried again.
        """
        pattern = self._patterns[number]
        if self._is_done(number, end):
            return
        if pattern in (OpPattern.INJECTIVE, OpPattern.TUPLE):
            self._join(number, end, _is_injective)
        elif pattern <= OpPattern.BROADCAST:
            self._fuse_broadcast(number, end, path)

    def _fuse_broadcast(self, number: int, end: int, path: int) -> None:
        if path <= OpPattern.INJECTIVE or path == OpPattern.COMM_REDUCE:
            self._join(number, end, _takes_broadcast)

    def _fuse_into_tuples(self, number: int, end: int, path: int) -> None:
        """Fuse injective operators with tuples that are not roots themselves."""
        kind = self._patterns[self.root(end)]
        if self._patterns[number] > OpPattern.INJECTIVE or self._patterns[end] != OpPattern.TUPLE:
            return
        if kind <= OpPattern.INJECTIVE:
            self._join(number, end, _is_injective)

    def _is_done(self, number: int, end: int) -> bool:
        """Return whether a result has joined, or has a tuple as its post-dominator.

        Tuples are left to the last phase.
        """
        return self.root(number) == self.root(end) or self._patterns[end] == OpPattern.TUPLE

    def _join(self, number: int, end: int, condition: _Condition) -> None:
        """Merge a result into its post-dominator's group, if all groups between fit.

        The results between the two are merged as well.
        """
        between = self._between(number, end)
        fits = all(condition(self._patterns[self.root(node)], False) for node in between if node != number)
        if fits and condition(self._patterns[self.root(end)], True):
            for node in between:
                self._merge(self.root(node), self.root(end))

    def _between(self, number: int, end: int) -> list[int]:
        """Return a result and all on the paths to its post-dominator, which is excluded."""
        # A dict keeps the order of discovery.
        nodes = {number: None}
        work = [number]
        while work:
            for user, _ in self._graph.users[work.pop()]:
                if user != end and user not in nodes:
                    nodes[user] = None
                    work.append(user)
        return list(nodes)

    def _merge(self, root: int, into: int) -> None:
        if root == into:
            return
        self._sizes[into] += self._sizes[root]
        self._parent[root] = into
        if self._has_anchor[root]:
            self._has_anchor[into] = True
            self._patterns[into] = max(self._patterns[root], self._patterns[into])

    def _size_with(self, number: int, end: int) -> int:
        """Return the size of the post-dominator's group after merging a result into it.

        Counting stops above the limit, which bounds the cost on large graphs.
        """
        total = self._sizes[self.root(end)]
        seen = {number}
        work = [number]
        while work and total <= self._max_depth:
            node = work.pop()
            total += self._sizes[node]
            fresh = {user for user, _ in self._graph.users[node] if user != end} - seen
            seen |= fresh
            work += fresh

        return total


def _is_injective(kind: int, is_end: bool) -> bool:
    return kind <= OpPattern.INJECTIVE


def _takes_broadcast(kind: int, is_end: bool) -> bool:
    return kind <= (OpPattern.OUT_ELEMWISE_FUSABLE if is_end else OpPattern.INJECTIVE)
