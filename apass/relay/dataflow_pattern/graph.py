"""`ExprGraph`: who uses whom in an expression, and where the paths from a node come together."""

from collections.abc import Iterator
from functools import cached_property

from apass.relay.dataflow.dominators import DominatorTree
from apass.relay.expr import Expr
from apass.relay.ir.post_order import post_order

__all__ = ["ExprGraph"]


class ExprGraph:
    """An expression as a graph: its nodes in post order, by number. All else is found out when it is asked for."""

    def __init__(self, expr: Expr) -> None:
        self.nodes: list[Expr] = list(post_order(expr))
        """Every node once, after all that is below it."""

    @cached_property
    def numbers(self) -> dict[Expr, int]:
        """The place of each node in `nodes`."""
        return {node: number for number, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> list[list[int]]:
        """For each node the nodes that it is directly below of, in post order."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for child in node.children:
                users[self.numbers[child]].append(number)
        return users

    @cached_property
    def tree(self) -> DominatorTree:
        """The post-dominators of the nodes."""
        tree = DominatorTree(len(self.nodes))
        for number in reversed(range(len(self.nodes))):
            tree.attach_to_all(number, ((user, 0) for user in self.users[number]))
        return tree

    @cached_property
    def dominated(self) -> list[list[int]]:
        """For each node those that it is the parent of in `tree`, the last first."""
        dominated: list[list[int]] = [[] for _ in self.nodes]
        for number in reversed(range(len(self.nodes))):
            parent = self.tree.parent(number)
            if parent >= 0:
                dominated[parent].append(number)
        return dominated

    def users_of(self, node: Expr) -> Iterator[Expr]:
        """Go over the nodes that a node is directly below of."""
        return map(self.nodes.__getitem__, self.users[self.numbers[node]])

    def dominated_by(self, node: Expr) -> Iterator[Expr]:
        """Go over the nodes for which a node is the first that all their paths lead through."""
        return map(self.nodes.__getitem__, self.dominated[self.numbers[node]])

    def dominates(self, node: Expr, other: Expr) -> bool:
        """Tell whether all paths from `other` lead through `node`."""
        return self.tree.dominates(self.numbers[node], self.numbers[other])
