"""`Matcher`, which matches patterns against nodes, and the pattern interface."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from apass.relay.dataflow_pattern.fit import Fit, Search, run_search
from apass.relay.dataflow_pattern.graph import ExprGraph
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, Op, Var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import Type
from apass.relay.type_inference.infer import infer_expr

__all__ = ["Matcher", "NodeMap", "Pattern", "parts"]


class Pattern:
    """The interface of patterns; a pattern equals only itself."""

    __slots__ = ()

    @property
    def children(self) -> "tuple[Pattern, ...]":
        """The patterns that this one is composed of."""
        return ()

    @property
    def is_fixed(self) -> bool:
        """Whether the pattern can match only one object."""
        return False

    def fits(self, expr: Expr, matcher: "Matcher") -> Fit:
        """Return whether the pattern matches an expression, or a search for the result.

        A search matches nested patterns by `yield matcher.attempt(pattern, expr)`, at any depth. Elsewhere,
        `matcher.visit(pattern, expr)` matches them by recursion.
        """
        raise NotImplementedError

    def inputs(self, match: Expr) -> Sequence[Expr]:
        """Return the inputs of a match: expressions that are not part of it.

        `match` is the expression that this pattern matched.
        """
        return () if self.children else (match,)

    def embeds(self, match: Expr) -> bool:
        """Return whether an input is copied into functions of the match instead of passed.

        This holds for constants that the pattern names.
        """
        return False

    def inner(self, node_map: "NodeMap") -> Iterator[Expr]:
        """Iterate over nodes within a match that must not be taken for its inputs."""
        return iter(())


NodeMap: TypeAlias = dict[Pattern, list[Expr]]
"""The nodes that each pattern matched; several for a part of a pattern that matches any number of nodes."""


class Matcher:
    """Matches patterns against the nodes of one expression.

    A pattern that occurs twice within another must match the same node both times.
    """

    def __init__(self, root: Expr, mod: IRModule | None = None) -> None:
        self.graph: ExprGraph = ExprGraph(root)
        """The expression."""
        self.node_map: NodeMap = {}
        """The nodes of the last match."""
        self._root = root
        self._mod = mod
        self._matched: list[Pattern] = []
        self.memoizes: bool = True
        """Whether a pattern that has matched must match the same node again; false for the path of a dominator."""
        self._pattern: Pattern = Pattern()
        self._searches: dict[Pattern, _DominatorSearch] = {}
        self._types: dict[Expr, Type] | None = None

    def match(self, pattern: Pattern, expr: Expr) -> bool:
        """Return whether a pattern matches a node; the match is in `node_map`."""
        if pattern is not self._pattern:
            self._pattern = pattern
            self._searches = {}
        self.node_map = {}
        self._matched = []
        return self.visit(pattern, expr)

    def visit(self, pattern: Pattern, expr: Expr) -> bool:
        """Return whether a part of the current pattern matches a node."""
        return run_search(self.attempt(pattern, expr))

    def attempt(self, pattern: Pattern, expr: Expr) -> Fit:
        """Match a part of the current pattern; return the result, or the search for it."""
        node_map = self.node_map
        if self.memoizes and pattern in node_map:
            return node_map[pattern][0] is expr
        mark = self.mark()
        fit = pattern.fits(expr, self)
        return self._record(pattern, expr, mark, fit) if isinstance(fit, bool) else self._run(pattern, expr, mark, fit)

    def attempt_all(self, patterns: Sequence[Pattern], exprs: Sequence[Expr]) -> Search:
        """Search whether the patterns match the nodes pairwise.

        If one does not match, the matches of the others are undone.
        """
        mark = self.mark()
        if len(patterns) != len(exprs):
            return False
        for pattern, expr in zip(patterns, exprs, strict=True):
            if not (yield self.attempt(pattern, expr)):
                self.forget(mark)
                return False
        return True

    def _run(self, pattern: Pattern, expr: Expr, mark: int, search: Search) -> Search:
        return self._record(pattern, expr, mark, (yield search))

    def _record(self, pattern: Pattern, expr: Expr, mark: int, fits: bool) -> bool:
        """Record that a pattern matched a node, or undo the matches within it."""
        if fits:
            self.node_map.setdefault(pattern, []).append(expr)
            self._matched.append(pattern)
        else:
            self.forget(mark)
        return fits

    def mark(self) -> int:
        """Return the current number of matches, for `forget`."""
        return len(self._matched)

    def forget(self, mark: int) -> None:
        """Undo the matches since `mark`."""
        while len(self._matched) > mark:
            pattern = self._matched.pop()
            # On the path of a dominator, a pattern may match again that the rest of the pattern has matched.
            nodes = self.node_map[pattern]
            nodes.pop()
            if not nodes:
                del self.node_map[pattern]

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of a node; None for a node without a type, such as an operator.

        The types of the whole expression are inferred when an unknown type is first requested.
        """
        if isinstance(expr, Constant) or (isinstance(expr, Var) and expr.type_annotation is not None):
            return expr.checked_type
        if expr.checked_type_ is not None or isinstance(expr, Op | GlobalVar | Constructor):
            return expr.checked_type_
        if self._types is None:
            pairs = zip(self.graph.nodes, post_order(infer_expr(self._root, self._mod)), strict=True)
            self._types = {
                old: new.checked_type for old, new in pairs if new.checked_type_ is not None or isinstance(new, Var)
            }
        return self._types.get(expr)

    def dominates(self, pattern: Pattern, parent: Pattern, path: Pattern, expr: Expr) -> bool:
        """Return whether a node dominates a match of `parent`.

        All paths from the operands of the node must consist of nodes that match `path`, up to a node that matches
        `parent`. `pattern` is the dominator pattern. Its children are the parent, the path, and the pattern that the
        node has matched already.
        """
        if pattern not in self._searches:
            is_independent = _is_independent(self._pattern, pattern, (parent, path))
            self._searches[pattern] = _DominatorSearch(self, parent, path, is_independent)
        search = self._searches[pattern]
        has_path = search.may_dominate(expr) and search.follow(expr)
        self.memoizes = True
        return has_path and search.dominates(expr)


class _DominatorSearch:
    """The search for parents of a dominator pattern in one expression.

    Nodes from which no parent can be reached are cached. That is valid only if the search is independent of what the
    rest of the pattern matched.
    """

    def __init__(self, matcher: Matcher, parent: Pattern, path: Pattern, is_independent: bool) -> None:
        self._matcher = matcher
        self._parent = parent
        self._path = path
        self._is_independent = is_independent
        self._failed: set[Expr] = set()
        """Nodes with a path that does not reach the parent, if the parent was not matched before."""

    @cached_property
    def _dominators(self) -> set[int]:
        """The numbers of nodes that dominate a node matching the parent."""
        matcher, graph = self._matcher, self._matcher.graph
        numbers: set[int] = set()
        for number, node in enumerate(graph.nodes):
            mark = matcher.mark()
            # If a node dominates a match, so does the parent of the node.
            if number in numbers or matcher.visit(self._parent, node):
                numbers.add(graph.tree.parent(number))
            matcher.forget(mark)
        return numbers

    def may_dominate(self, expr: Expr) -> bool:
        """Return whether the paths from a node may lead to a parent."""
        if not self._is_independent:
            return True
        self._matcher.memoizes = True
        return self._matcher.graph.numbers[expr] in self._dominators and expr not in self._failed

    def follow(self, expr: Expr) -> bool:
        """Return whether the paths from a node match up to the parent.

        On each level, the first operand that matches the parent ends that level.
        """
        levels = [_Level(expr, self._is_unmatched())]
        checked: set[Expr] = set()
        while levels:
            node = next((operand for operand in levels[-1].operands if operand not in checked), None)
            self._matcher.memoizes = True
            if node is None or self._matcher.visit(self._parent, node):
                levels.pop()
                continue
            self._matcher.memoizes = False
            if (self._is_unmatched() and node in self._failed) or not self._matcher.visit(self._path, node):
                self._failed.update(level.node for level in levels if level.is_unmatched)
                return False
            checked.add(node)
            levels.append(_Level(node, self._is_unmatched()))
        return True

    def dominates(self, expr: Expr) -> bool:
        """Return whether a node dominates a match of the parent."""
        work = [expr]
        while work:
            for node in self._matcher.graph.dominated_by(work.pop()):
                if self._matcher.visit(self._parent, node):
                    return True
                work.append(node)
        return False

    def _is_unmatched(self) -> bool:
        return self._is_independent and self._parent not in self._matcher.node_map


class _Level:
    """A node whose operands are visited next."""

    __slots__ = ("is_unmatched", "node", "operands")

    def __init__(self, node: Expr, is_unmatched: bool) -> None:
        self.node = node
        self.is_unmatched = is_unmatched
        """Whether the parent was not matched when the level was entered."""
        # The called operator or function is not on the paths.
        self.operands = iter(node.args if isinstance(node, Call) else node.children)


def _is_independent(root: Pattern, pattern: Pattern, inner: tuple[Pattern, Pattern]) -> bool:
    """Return whether the parent and the path of a pattern are independent.

    They must share no part that can match different nodes, neither with each other nor with the rest of the root
    pattern.
    """
    parent, path = (_variable_parts(part) for part in inner)
    outside = _variable_parts(root, lambda part: part is pattern) - {pattern}
    outside = outside.union(*map(_variable_parts, pattern.children[2:]))
    return not (parent & path or outside & (parent | path))


def _variable_parts(pattern: Pattern, skip: Callable[[Pattern], bool] = lambda _: False) -> set[Pattern]:
    """Return the parts of a pattern that can match different nodes."""
    return {part for part in parts(pattern, skip) if not part.is_fixed}


def parts(pattern: Pattern, skip: Callable[[Pattern], bool] = lambda _: False) -> Iterator[Pattern]:
    """Iterate over a pattern and its descendants in post order, each once.

    Patterns for which `skip` is true are yielded but not entered.
    """
    done: set[Pattern] = set()
    work = [pattern]
    while work:
        part = work[-1]
        below = () if part in done or skip(part) else [child for child in reversed(part.children) if child not in done]
        if below:
            work += below
            continue
        work.pop()
        if part not in done:
            done.add(part)
            yield part
