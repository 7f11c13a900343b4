"""`DominatorTree`: where all paths from a node come together again; for fusion and for patterns."""

from collections.abc import Iterable

__all__ = ["NOWHERE", "DominatorTree"]

NOWHERE = -1
"""The parent of a node whose paths never come together."""


class DominatorTree:
    """The post-dominator tree of a graph without cycles: the parent of a node is the first node on all paths from it.

    Nodes are numbers in topological order, users after what they use; they are attached from the last to the first. The
    way from a node to its parent has a weight, and that from a node to any ancestor the greatest weight on it.

    Looking for a common ancestor takes the logarithm of the depth: each node knows, beside its parent, an ancestor far
    above it, at distances that grow as the places of a skew binary number.
    """

    def __init__(self, size: int) -> None:
        # The last place of each list stands for NOWHERE, above all roots.
        self._parent = [NOWHERE] * (size + 1)
        self._depth = [0] * (size + 1)
        self._weight = [0] * (size + 1)
        self._jump = [NOWHERE] * (size + 1)
        self._jump_weight = [0] * (size + 1)

    def parent(self, node: int) -> int:
        """Return the parent of a node, NOWHERE if it has none."""
        return self._parent[node]

    def weight(self, node: int) -> int:
        """Return the weight of the way from a node to its parent."""
        return self._weight[node]

    def attach(self, node: int, parent: int, weight: int = 0) -> None:
        """Give a node its parent, which was attached before."""
        depth, jump = self._depth, self._jump
        far = jump[parent]
        self._parent[node], self._weight[node], depth[node] = parent, weight, depth[parent] + 1
        if parent != NOWHERE and depth[parent] - depth[far] == depth[far] - depth[jump[far]]:
            jump[node] = jump[far]
            self._jump_weight[node] = max(weight, self._jump_weight[parent], self._jump_weight[far])
        else:
            jump[node] = parent
            self._jump_weight[node] = weight

    def attach_to_all(self, node: int, users: Iterable[tuple[int, int]]) -> None:
        """Give a node the parent that its users make necessary, each given with the weight of the way to it."""
        parent, weight, is_first = NOWHERE, 0, True
        for user, way in users:
            parent, met = (user, 0) if is_first else self.meet(parent, user)
            weight, is_first = max(weight, way, met), False
        self.attach(node, parent, weight)

    def meet(self, left: int, right: int) -> tuple[int, int]:
        """Return the nearest common ancestor of two nodes, and the greatest weight on the ways to it."""
        depth = min(self._depth[left], self._depth[right])
        left, weight = self._ancestor(left, depth)
        right, other = self._ancestor(right, depth)
        weight = max(weight, other)
        while left != right:
            up, weights = (self._jump, self._jump_weight)
            if up[left] == up[right]:
                up, weights = self._parent, self._weight
            weight = max(weight, weights[left], weights[right])
            left, right = up[left], up[right]
        return left, weight

    def dominates(self, node: int, other: int) -> bool:
        """Tell whether all paths from `other`, which is another node, lead through `node`."""
        return node != other and self._ancestor(other, self._depth[node])[0] == node

    def _ancestor(self, node: int, depth: int) -> tuple[int, int]:
        weight = 0
        while self._depth[node] > depth:
            is_far = self._depth[self._jump[node]] >= depth
            weight = max(weight, self._jump_weight[node] if is_far else self._weight[node])
            node = self._jump[node] if is_far else self._parent[node]
        return node, weight
