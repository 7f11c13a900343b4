"""`find_groups`: matches of a pattern that do not overlap.

All of them can be replaced together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from apass.relay.dataflow_pattern.matcher import Matcher, NodeMap, Pattern, parts
from apass.relay.ir.adt import Match
from apass.relay.ir.expr import Constant, Expr, Let, Op, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import bound_vars, free_vars

__all__ = ["PARTITIONED_FROM_PATTERN", "Group", "find_groups"]

PARTITIONED_FROM_PATTERN = "PartitionedFromPattern"
"""Attribute of a function that `partition` made; nodes in such functions are not matched again."""


@dataclass(frozen=True, slots=True)
class Group:
    """A match of a pattern."""

    root: Expr
    """The node that the pattern matched."""
    node_map: NodeMap
    """The nodes that each part of the pattern matched."""
    args: list[Expr] = field(default_factory=list[Expr])
    """The inputs of the match, in the order of the pattern."""
    params: list[Var] = field(default_factory=list[Var])
    """A variable for each of `args`, to make a function of the match."""

    def params_by_arg(self) -> dict[Expr, Var]:
        """Return the variable for each input of the match."""
        return dict(zip(self.args, self.params, strict=True))

    def nodes(self) -> list[Expr]:
        """Return the nodes of the match in post order, without its inputs.

        The root is included even if it is an input.
        """
        inputs = set(self.args)
        return [node for node in post_order(self.root, inputs.__contains__) if node is self.root or node not in inputs]


def find_groups(pattern: Pattern, expr: Expr, mod: IRModule | None = None) -> dict[Expr, Group]:
    """Return the matches of a pattern in an expression, by their roots.

    If two matches overlap, the one nearer to the root of the expression is taken. Nodes within a match must not be used
    outside of it, except by nodes that only the match uses. This does not apply to constants, operators and functions.
    """
    grouper = _Grouper(pattern, Matcher(expr, mod))
    grouper.run()
    return {group.root: group for group in grouper.groups.values() if grouper.groups[group.root] is group}


class _Grouper:
    """The state of one search."""

    def __init__(self, pattern: Pattern, matcher: Matcher) -> None:
        self.groups: dict[Expr, Group] = {}
        """The group of each node that is in one."""
        self._pattern = pattern
        self._parts = list(parts(pattern))
        self._matcher = matcher
        self._tried = 0

    def run(self) -> None:
        """Find the groups, visiting users before the nodes they use."""
        skipped: set[Expr] = set()
        for node in reversed(self._matcher.graph.nodes):
            if node in self.groups:
                continue
            if isinstance(node, Function) and PARTITIONED_FROM_PATTERN in node.attrs:
                skipped.update(post_order(node))
            if node not in skipped and self._matcher.match(self._pattern, node):
                self._take(node)

    def _take(self, root: Expr) -> None:
        """Make a group of the last match if all of its nodes can be replaced."""
        group = _without_bound(self._group(root))
        if group is None:
            return
        inside = dict.fromkeys(group.nodes())
        if all(self._can_be_inside(node, root, inside) for node in inside if not _is_global(node)):
            self.groups |= dict.fromkeys(inside, group)

    def _group(self, root: Expr) -> Group:
        node_map = self._matcher.node_map
        group = Group(root, node_map)
        inner = {node for part in self._parts for node in part.inner(node_map)}
        for part in self._parts:
            for arg in (node for match in node_map.get(part, ()) for node in part.inputs(match)):
                if arg not in inner and not isinstance(arg, Op | Function) and not _is_embedded(part, arg):
                    group.args.append(arg)
                    # The counter makes names unique across groups.
                    group.params.append(Var(f"FunctionVar_{self._tried}_{len(group.params)}"))
        self._tried += 1
        return group

    def _can_be_inside(self, node: Expr, root: Expr, inside: Iterable[Expr]) -> bool:
        """Return whether a node is in no other group, and has no user outside of this one."""
        graph = self._matcher.graph
        if node in self.groups:
            return False
        return node is root or all(user in inside or graph.dominates(root, user) for user in graph.users_of(node))


def _without_bound(group: Group) -> Group | None:
    """Return the match without the inputs that are variables bound within it.

    Such variables have no value outside. Return None if another input needs one of them.
    """
    if not any(isinstance(node, Function | Let | Match) for node in group.nodes()):
        return group
    bound = set(bound_vars(group.root))
    pairs = [(arg, param) for arg, param in zip(group.args, group.params, strict=True) if arg not in bound]
    if any(var in bound for arg, _ in pairs for var in free_vars(arg)):
        return None
    return replace(group, args=[arg for arg, _ in pairs], params=[param for _, param in pairs])


def _is_global(node: Expr) -> bool:
    """Return whether a node can be in several groups."""
    return isinstance(node, Op | Function | Constant)


def _is_embedded(part: Pattern, arg: Expr) -> bool:
    return isinstance(arg, Constant) and part.embeds(arg)
