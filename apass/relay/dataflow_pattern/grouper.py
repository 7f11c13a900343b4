"""`find_groups`: the matches of a pattern that can all be replaced at once, since they do not overlap."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from apass.relay.dataflow_pattern.matcher import Matcher, NodeMap, Pattern, parts
from apass.relay.expr import Constant, Expr, Op, Var
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["PARTITIONED_FROM_PATTERN", "Group", "find_groups"]

PARTITIONED_FROM_PATTERN = "PartitionedFromPattern"
"""The attribute of a function that `partition` made: nothing within such functions is matched again."""


@dataclass(frozen=True, slots=True)
class Group:
    """A match of a pattern."""

    root: Expr
    """The node that the pattern matched."""
    node_map: NodeMap
    """What each part of the pattern matched."""
    args: list[Expr] = field(default_factory=list[Expr])
    """The nodes where the match ends, in the order of the pattern."""
    params: list[Var] = field(default_factory=list[Var])
    """A variable for each of `args`, for a function of the match."""

    def params_by_arg(self) -> dict[Expr, Var]:
        """Return the variable that stands for each node where the match ends."""
        return dict(zip(self.args, self.params, strict=True))

    def nodes(self) -> list[Expr]:
        """Return the nodes of the match, what is below one before it; not those where it ends, if it ends below."""
        ends = set(self.args)
        return [one for one in post_order(self.root, ends.__contains__) if one is self.root or one not in ends]


def find_groups(pattern: Pattern, expr: Expr, mod: IRModule | None = None) -> dict[Expr, Group]:
    """Return the matches of a pattern in an expression, by the nodes that they are matches of.

    Of two that overlap, the one further up is taken. No node within a match, other than constants, operators and
    functions, is used outside of it, unless by what in turn is used by the match alone.
    """
    grouper = _Grouper(pattern, Matcher(expr, mod))
    grouper.run()
    return {group.root: group for group in grouper.groups.values() if grouper.groups[group.root] is group}


class _Grouper:
    """The state of one search."""

    def __init__(self, pattern: Pattern, matcher: Matcher) -> None:
        self.groups: dict[Expr, Group] = {}
        """The group of each node that is within one."""
        self._pattern = pattern
        self._parts = list(parts(pattern))
        self._matcher = matcher
        self._tried = 0

    def run(self) -> None:
        """Go over the nodes, users first."""
        skipped: set[Expr] = set()
        for node in reversed(self._matcher.graph.nodes):
            if node in self.groups:
                continue
            if isinstance(node, Function) and PARTITIONED_FROM_PATTERN in node.attrs:
                skipped.update(post_order(node))
            if node not in skipped and self._matcher.match(self._pattern, node):
                self._take(node)

    def _take(self, root: Expr) -> None:
        """Make a group of the last match if it can be replaced."""
        group = self._group(root)
        inside = dict.fromkeys(group.nodes())
        if all(self._can_be_inside(one, root, inside) for one in inside if not _is_global(one)):
            self.groups |= dict.fromkeys(inside, group)

    def _group(self, root: Expr) -> Group:
        node_map = self._matcher.node_map
        group = Group(root, node_map)
        inner = {one for part in self._parts for one in part.inner(node_map)}
        for part in self._parts:
            for arg in (one for match in node_map.get(part, ()) for one in part.inputs(match)):
                if arg not in inner and not isinstance(arg, Op | Function) and not _is_embedded(part, arg):
                    group.args.append(arg)
                    group.params.append(Var(f"FunctionVar_{self._tried}_{len(group.params)}"))
        self._tried += 1
        return group

    def _can_be_inside(self, node: Expr, root: Expr, inside: Iterable[Expr]) -> bool:
        """Tell whether a node is in no other group and has no user that would still need it."""
        graph = self._matcher.graph
        if node in self.groups:
            return False
        return node is root or all(one in inside or graph.dominates(root, one) for one in graph.users_of(node))


def _is_global(node: Expr) -> bool:
    """Tell whether a node can be in many groups."""
    return isinstance(node, Op | Function | Constant)


def _is_embedded(part: Pattern, arg: Expr) -> bool:
    return isinstance(arg, Constant) and part.embeds(arg)
