"""`Matcher`: tries patterns on expressions and keeps what matched what; and what it asks of a pattern."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

from apass.relay.adt import Constructor
from apass.relay.dataflow_pattern.fit import Fit, Search, settle
from apass.relay.dataflow_pattern.graph import ExprGraph
from apass.relay.expr import Call, Constant, Expr, GlobalVar, Op, Var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ty import Type
from apass.relay.type_inference.infer import infer_expr

__all__ = ["Matcher", "NodeMap", "Pattern", "parts"]


class Pattern:
    """What the matcher, and those who use its results, ask of a pattern. A pattern equals only itself."""

    __slots__ = ()

    @property
    def children(self) -> "tuple[Pattern, ...]":
        """The patterns that this one is made of."""
        return ()

    @property
    def is_fixed(self) -> bool:
        """Whether there is but one object that the pattern can match."""
        return False

    def fits(self, expr: Expr, matcher: "Matcher") -> Fit:
        """Tell whether the pattern matches an expression.

        For the patterns within it, `yield matcher.attempt(pattern, expr)` gives the answer, to any depth;
        `matcher.visit(pattern, expr)` gives it by recursion.
        """
        raise NotImplementedError

    def inputs(self, match: Expr) -> Sequence[Expr]:
        """Return the expressions where a match ends, given what this pattern matched: all below is no part of it."""
        return () if self.children else (match,)

    def embeds(self, match: Expr) -> bool:
        """Tell whether an input is better copied into a function that is made of the match: a constant asked for."""
        return False

    def inner(self, node_map: "NodeMap") -> Iterator[Expr]:
        """Go over the expressions that are within a match even if they look like its inputs."""
        return iter(())


NodeMap: TypeAlias = dict[Pattern, list[Expr]]
"""What each pattern matched; several expressions for the parts of a pattern that stand for any number of nodes."""


class Matcher:
    """Matches patterns against nodes of one expression.

    A pattern that occurs twice within another matches one and the same node both times.
    """

    def __init__(self, root: Expr, mod: IRModule | None = None) -> None:
        self.graph = ExprGraph(root)
        """The expression."""
        self.node_map: NodeMap = {}
        """What the last match consists of."""
        self._root = root
        self._mod = mod
        self._matched: list[Pattern] = []
        self.memoizes = True
        """Whether a pattern that has matched stands for that node; not on a path, where it matches many."""
        self._pattern: Pattern = Pattern()
        self._searches: dict[Pattern, _Search] = {}
        self._types: dict[Expr, Type] | None = None

    def match(self, pattern: Pattern, expr: Expr) -> bool:
        """Tell whether a pattern matches a node; `node_map` says how."""
        if pattern is not self._pattern:
            self._pattern = pattern
            self._searches = {}
        self.node_map = {}
        self._matched = []
        return self.visit(pattern, expr)

    def visit(self, pattern: Pattern, expr: Expr) -> bool:
        """Tell whether a pattern that is part of the one that is being matched matches a node."""
        return settle(self.attempt(pattern, expr))

    def attempt(self, pattern: Pattern, expr: Expr) -> Fit:
        """Return whether a pattern that is part of the one that is being matched matches a node, or the search."""
        node_map = self.node_map
        if self.memoizes and pattern in node_map:
            return node_map[pattern][0] is expr
        mark = self.mark()
        fit = pattern.fits(expr, self)
        return (
            self._noted(pattern, expr, mark, fit) if isinstance(fit, bool) else self._searched(pattern, expr, mark, fit)
        )

    def attempt_all(self, patterns: Sequence[Pattern], exprs: Sequence[Expr]) -> Search:
        """Search whether the patterns match the nodes one by one; what they matched is forgotten if not all do."""
        mark = self.mark()
        if len(patterns) != len(exprs):
            return False
        for pattern, expr in zip(patterns, exprs, strict=True):
            if not (yield self.attempt(pattern, expr)):
                self.forget(mark)
                return False
        return True

    def _searched(self, pattern: Pattern, expr: Expr, mark: int, search: Search) -> Search:
        return self._noted(pattern, expr, mark, (yield search))

    def _noted(self, pattern: Pattern, expr: Expr, mark: int, fits: bool) -> bool:
        """Note that a pattern matched a node, or forget what matched within it."""
        if fits:
            self.node_map.setdefault(pattern, []).append(expr)
            self._matched.append(pattern)
        else:
            self.forget(mark)
        return fits

    def mark(self) -> int:
        """Return how much has matched so far, for `forget`."""
        return len(self._matched)

    def forget(self, mark: int) -> None:
        """Undo what has matched since `mark`."""
        for pattern in self._matched[mark:]:
            self.node_map.pop(pattern, None)
        del self._matched[mark:]

    def type_of(self, expr: Expr) -> Type | None:
        """Return the type of a node, None for what has none by itself, as an operator.

        The types of the whole expression are inferred when the first is asked for that is not known.
        """
        if isinstance(expr, Constant) or (isinstance(expr, Var) and expr.type_annotation is not None):
            return expr.checked_type
        if expr.checked_type_ is not None or isinstance(expr, Op | GlobalVar | Constructor):
            return expr.checked_type_
        if self._types is None:
            self._types = self._infer()
        return self._types.get(expr)

    def _infer(self) -> dict[Expr, Type]:
        pairs = zip(self.graph.nodes, post_order(infer_expr(self._root, self._mod)), strict=True)
        return {old: new.checked_type for old, new in pairs if new.checked_type_ is not None or isinstance(new, Var)}

    def dominates(self, pattern: Pattern, parent: Pattern, path: Pattern, expr: Expr) -> bool:
        """Tell whether all paths up from a node match `path` until one matches `parent`, which the node dominates.

        `pattern` is the one that says so; its children are the parent, the path, and what the node has matched.
        """
        if pattern not in self._searches:
            is_independent = _is_independent(self._pattern, pattern, (parent, path))
            self._searches[pattern] = _Search(self, parent, path, is_independent)
        search = self._searches[pattern]
        has_path = search.may_dominate(expr) and search.follow(expr)
        self.memoizes = True
        return has_path and search.dominates(expr)


class _Search:
    """The search for a parent, in one expression; it remembers where there is none, so as not to look there again.

    That is possible only if the search is independent: if what the rest of the pattern matched has no say in it.
    """

    def __init__(self, matcher: Matcher, parent: Pattern, path: Pattern, is_independent: bool) -> None:
        self._matcher = matcher
        self._parent = parent
        self._path = path
        self._is_independent = is_independent
        self._dead: set[Expr] = set()
        """Nodes from which some path does not lead to the parent, if none has been found before."""

    @cached_property
    def _fertile(self) -> set[int]:
        """The nodes, by number, that dominate one that matches the parent."""
        matcher, graph = self._matcher, self._matcher.graph
        found: set[int] = set()
        for number, node in enumerate(graph.nodes):
            mark = matcher.mark()
            if number in found or matcher.visit(self._parent, node):
                found.add(graph.tree.parent(number))
            matcher.forget(mark)
        return found

    def may_dominate(self, expr: Expr) -> bool:
        """Tell whether it is worth while to follow the paths."""
        if not self._is_independent:
            return True
        self._matcher.memoizes = True
        return self._matcher.graph.numbers[expr] in self._fertile and expr not in self._dead

    def follow(self, expr: Expr) -> bool:
        """Follow the operands of a node; from each level the first that is the parent ends the search of that level."""
        levels = [_Level(expr, self._is_unbound())]
        checked: set[Expr] = set()
        while levels:
            node = next((one for one in levels[-1].operands if one not in checked), None)
            self._matcher.memoizes = True
            if node is None or self._matcher.visit(self._parent, node):
                levels.pop()
                continue
            self._matcher.memoizes = False
            if (self._is_unbound() and node in self._dead) or not self._matcher.visit(self._path, node):
                self._dead.update(one.node for one in levels if one.is_unbound)
                return False
            checked.add(node)
            levels.append(_Level(node, self._is_unbound()))
        return True

    def dominates(self, expr: Expr) -> bool:
        """Search what a node dominates for the parent."""
        work = [expr]
        while work:
            for node in self._matcher.graph.dominated_by(work.pop()):
                if self._matcher.visit(self._parent, node):
                    return True
                work.append(node)
        return False

    def _is_unbound(self) -> bool:
        return self._is_independent and self._parent not in self._matcher.node_map


class _Level:
    """A node whose operands are being followed."""

    __slots__ = ("is_unbound", "node", "operands")

    def __init__(self, node: Expr, is_unbound: bool) -> None:
        self.node = node
        self.is_unbound = is_unbound
        # What is called has no part in the paths.
        self.operands = iter(node.args if isinstance(node, Call) else node.children)


def _is_independent(root: Pattern, pattern: Pattern, inner: tuple[Pattern, Pattern]) -> bool:
    """Tell whether parent and path of a pattern share nothing with each other, nor with the rest of the root."""
    parent, path = (_loose_parts(one) for one in inner)
    outside = _loose_parts(root, lambda one: one is pattern) - {pattern}
    outside = outside.union(*map(_loose_parts, pattern.children[2:]))
    return not (parent & path or outside & (parent | path))


def _loose_parts(pattern: Pattern, skip: Callable[[Pattern], bool] = lambda _: False) -> set[Pattern]:
    """Return a pattern and all within it that can match one node or another."""
    return {one for one in parts(pattern, skip) if not one.is_fixed}


def parts(pattern: Pattern, skip: Callable[[Pattern], bool] = lambda _: False) -> Iterator[Pattern]:
    """Go over a pattern and all within it, each once, what is within one before it; not within what `skip` tells."""
    done: set[Pattern] = set()
    work = [pattern]
    while work:
        part = work[-1]
        below = () if part in done or skip(part) else [one for one in reversed(part.children) if one not in done]
        if below:
            work += below
            continue
        work.pop()
        if part not in done:
            done.add(part)
            yield part
