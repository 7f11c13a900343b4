"""`ExprGraph`: the users and the post-dominators of the nodes of an expression."""

from collections.abc import Iterator
from functools import cached_property

from apass.relay.dataflow.dominators import DominatorTree
from apass.relay.ir.expr import Expr
from apass.relay.ir.post_order import post_order

__all__ = ["ExprGraph"]


class ExprGraph:
    """An expression as a graph, with its nodes numbered in post order.

    Users and post-dominators are computed on first use.
    """

    def __init__(self, expr: Expr) -> None:
        self.nodes: list[Expr] = list(post_order(expr))
        """Every node once, after its descendants."""

    @cached_property
    def numbers(self) -> dict[Expr, int]:
        """The index of each node in `nodes`."""
        return {node: number for number, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> list[list[int]]:
        """The users of each node, in post order."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for child in node.children:
                users[self.numbers[child]].append(number)
        return users

    @cached_property
    def tree(self) -> DominatorTree:
        """The post-dominator tree of the nodes."""
        tree = DominatorTree(len(self.nodes))
        for number in reversed(range(len(self.nodes))):
            tree.attach_to_all(number, ((user, 0) for user in self.users[number]))
        return tree

    @cached_property
    def dominated(self) -> list[list[int]]:
        """The nodes whose parent in `tree` is a node, for each node, last first."""
        dominated: list[list[int]] = [[] for _ in self.nodes]
        for number in reversed(range(len(self.nodes))):
            parent = self.tree.parent(number)
            if parent >= 0:
                dominated[parent].append(number)
        return dominated

    def users_of(self, node: Expr) -> Iterator[Expr]:
        """Iterate over the users of a node."""
        return map(self.nodes.__getitem__, self.users[self.numbers[node]])

    def dominated_by(self, node: Expr) -> Iterator[Expr]:
        """Iterate over the nodes whose nearest post-dominator is a node."""
        return map(self.nodes.__getitem__, self.dominated[self.numbers[node]])

    def dominates(self, node: Expr, other: Expr) -> bool:
        """Return whether all paths from `other` lead through `node`."""
        return self.tree.dominates(self.numbers[node], self.numbers[other])
