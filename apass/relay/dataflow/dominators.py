"""`DominatorTree`: post-dominators, for operator fusion and for patterns."""

from collections.abc import Iterable

__all__ = ["NOWHERE", "DominatorTree"]

NOWHERE = -1
"""The parent of a node whose paths never meet."""


class DominatorTree:
    """The post-dominator tree of an acyclic graph.

    The parent of a node is the first node on all paths from it. Nodes are numbers in topological order, users after
    their operands. They are attached from the last to the first. The path from a node to its parent has a weight. The
    weight of the path to an ancestor is the greatest weight on it.

    Finding a common ancestor takes time logarithmic in the depth. Besides its parent, each node has a jump pointer to a
    farther ancestor, at distances that follow the skew binary numbers.
    """

    def __init__(self, size: int) -> None:
        # The last element of each list is that of NOWHERE (-1), the parent of all roots.
        self._parent = [NOWHERE] * (size + 1)
        self._depth = [0] * (size + 1)
        self._weight = [0] * (size + 1)
        self._jump = [NOWHERE] * (size + 1)
        self._jump_weight = [0] * (size + 1)

    def parent(self, node: int) -> int:
        """Return the parent of a node; NOWHERE if it has none."""
        return self._parent[node]

    def weight(self, node: int) -> int:
        """Return the weight of the path from a node to its parent."""
        return self._weight[node]

    def attach(self, node: int, parent: int, weight: int = 0) -> None:
        """Attach a node to its parent, which is attached already."""
        depth, jump = self._depth, self._jump
        far = jump[parent]
        self._parent[node], self._weight[node], depth[node] = parent, weight, depth[parent] + 1
        # If the parent's last two jumps have equal length, the node jumps over both, as in a skew binary increment.
        if parent != NOWHERE and depth[parent] - depth[far] == depth[far] - depth[jump[far]]:
            jump[node] = jump[far]
            self._jump_weight[node] = max(weight, self._jump_weight[parent], self._jump_weight[far])
        else:
            jump[node] = parent
            self._jump_weight[node] = weight

    def attach_to_all(self, node: int, users: Iterable[tuple[int, int]]) -> None:
        """Attach a node to the nearest common ancestor of its users.

        Each user is given with the weight of the path to it.
        """
        parent, weight, is_first = NOWHERE, 0, True
        for user, user_weight in users:
            parent, path_weight = (user, 0) if is_first else self.meet(parent, user)
            weight, is_first = max(weight, user_weight, path_weight), False
        self.attach(node, parent, weight)

    def meet(self, left: int, right: int) -> tuple[int, int]:
        """Return the nearest common ancestor of two nodes.

        Return the greatest weight on the paths to it as well.
        """
        depth = min(self._depth[left], self._depth[right])
        left, weight = self._ancestor(left, depth)
        right, right_weight = self._ancestor(right, depth)
        weight = max(weight, right_weight)
        while left != right:
            up, weights = (self._jump, self._jump_weight)
            # Equal jumps may pass the nearest common ancestor; step by parents instead.
            if up[left] == up[right]:
                up, weights = self._parent, self._weight
            weight = max(weight, weights[left], weights[right])
            left, right = up[left], up[right]
        return left, weight

    def dominates(self, node: int, other: int) -> bool:
        """Return whether all paths from `other`, a different node, lead through `node`."""
        return node != other and self._ancestor(other, self._depth[node])[0] == node

    def _ancestor(self, node: int, depth: int) -> tuple[int, int]:
        weight = 0
        while self._depth[node] > depth:
            is_far = self._depth[self._jump[node]] >= depth
            weight = max(weight, self._jump_weight[node] if is_far else self._weight[node])
            node = self._jump[node] if is_far else self._parent[node]
        return node, weight
