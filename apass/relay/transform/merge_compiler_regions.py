"""MergeCompilerRegions: join the regions of one compiler that feed each other.

The counterpart of TVM's `merge_compiler_regions.cc`.

AnnotateTarget makes a region of every operator. This pass visits the regions, inputs first, and joins each with those
of its inputs that are for the same compiler. Two regions stay apart if another path leads from one to the other: their
join would depend on itself. The marks between joined regions are removed.

TVM follows only the marks, and joins some regions that it should not. This pass also respects the following:

- paths over unmarked nodes and over variables that a Let binds
- paths that arose from earlier joins
- scopes: the body of a function or a Let, a branch, or a clause
- cells: the order of their reads and writes is kept
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.analysis.annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from apass.relay.dataflow.scopes import HomeScope, evaluation_order, home_scopes
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.expr import Call, Expr, GlobalVar, Let, Op, RefCreate, RefRead, RefWrite, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.annotation import COMPILER_BEGIN, COMPILER_END, compiler_of
from apass.relay.transform.function_pass import function_pass
from apass.relay.visitors.expr_rewriter import ExprRewriter, rewrite

__all__ = ["MergeCompilerRegions", "merge_compiler_regions"]


def merge_compiler_regions(func: Function) -> Function:
    """Return the function with the regions of one compiler joined where possible.

    Raises:
        AnnotationError: if the marks do not form regions.

    """
    regions = AnnotatedRegionSet(func, Op.get(COMPILER_BEGIN), Op.get(COMPILER_END))
    if not len(regions):
        return func
    _Merger(regions, func).merge_all()
    merged = rewrite(func, _MarkRemover(regions))
    assert isinstance(merged, Function), "the rewriter returns a function for a function"
    return merged


@provide_pass("MergeCompilerRegions")
def MergeCompilerRegions() -> FunctionPass[IRModule, Function]:
    """Join regions of one compiler, so that PartitionGraph makes fewer functions."""
    return function_pass(_merge, opt_level=0, name="MergeCompilerRegions")


def _merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
    return merge_compiler_regions(func)


class _MarkRemover(ExprRewriter):
    """Removes the marks between nodes of one region."""

    def __init__(self, regions: AnnotatedRegionSet) -> None:
        self._regions = regions

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        if compiler_of(pre, COMPILER_BEGIN) is None or compiler_of(pre.args[0], COMPILER_END) is None:
            return post
        if self._regions.get_region(pre) is not self._regions.get_region(pre.args[0]):
            return post
        assert isinstance(post, Call), "no rule replaces a mark that stays"
        return post.args[0].children[1]


class _Merger:
    """Joins regions, inputs first."""

    def __init__(self, regions: AnnotatedRegionSet, func: Function) -> None:
        self._regions = regions
        self._func = func
        self._graph = _UnitGraph(regions, func)
        self._homes = _homes(func)
        self._entered: set[int] = set()
        self._done: set[int] = set()
        self._fixed = {region.id for region in regions if any(isinstance(node, _CELLS) for node in region.nodes)}
        self._scopes = {region.id: self._scope_of(region) for region in regions}

    def merge_all(self) -> None:
        """Join all regions that can be joined."""
        for node in post_order(self._func):
            region = self._regions.get_region(node)
            if region is not None and compiler_of(node, COMPILER_END) is not None:
                self._merge_from(region)

    def _merge_from(self, region: AnnotatedRegion) -> None:
        """Join a region with those of its inputs, after the same for these."""
        stack = [region]
        while stack:
            current = stack[-1].resolved()
            if current.id in self._done:
                stack.pop()
            elif current.id not in self._entered:
                self._entered.add(current.id)
                stack += [parent for parent in self._parents(current) if parent.id not in self._entered]
            else:
                stack.pop()
                self._done.add(current.id)
                self._merge_parents(current)

    def _parents(self, region: AnnotatedRegion) -> Iterator[AnnotatedRegion]:
        """Iterate over the regions whose results are inputs of a region."""
        parents = (self._regions.get_region(begin.args[0]) for begin in region.args)
        return iter(dict.fromkeys(parent for parent in parents if parent is not None))

    def _merge_parents(self, region: AnnotatedRegion) -> None:
        for parent in list(self._parents(region)):
            if self._is_mergeable(parent, region):
                self._graph.contract(parent, region)
                self._regions.merge_regions(parent, region)

    def _is_mergeable(self, parent: AnnotatedRegion, region: AnnotatedRegion) -> bool:
        scope = self._scopes[region.id]
        return (
            parent.target == region.target
            and scope is not None
            and self._scopes[parent.id] is scope
            and self._fixed.isdisjoint((parent.id, region.id))
            and not self._graph.has_detour(parent, region)
        )

    def _scope_of(self, region: AnnotatedRegion) -> HomeScope | None:
        """Return the scope that contains all results of a region; None if they differ."""
        scopes = {self._homes[end.args[0]] for end in region.rets}
        return scopes.pop() if len(scopes) == 1 else None


_CELLS: Final = (RefCreate, RefRead, RefWrite)
_ATOMS: Final = frozenset({Var, GlobalVar, Op, Constructor})


def _homes(func: Function) -> dict[Expr, HomeScope]:
    """Return the home scope of each expression; a Let is a scope as well."""
    order = evaluation_order(func, _ATOMS)
    return home_scopes(HomeScope(), order, _ATOMS, lambda scope, node, part: HomeScope(scope))


Unit: TypeAlias = Expr | int
"""A node outside of all regions, or the number of a region."""


class _UnitGraph:
    """Dependencies between regions and other nodes, updated when regions are joined."""

    def __init__(self, regions: AnnotatedRegionSet, func: Function) -> None:
        self._regions = regions
        self._unit_of: dict[int, Unit] = {}
        self._sources: dict[Unit, dict[Unit, None]] = {}
        self._users: dict[Unit, dict[Unit, None]] = {}
        for node in post_order(func):
            for child in node.children:
                if child.children or isinstance(child, Var):
                    self._connect(child, node)
            for var, value in _bindings(node):
                self._connect(value, var)

    def has_detour(self, parent: AnnotatedRegion, region: AnnotatedRegion) -> bool:
        """Return whether a path over other units leads from one region to another.

        The search runs from both regions in turn. It ends when one of the two sides has been explored.
        """
        start, goal = self._unit(parent.id), self._unit(region.id)
        ahead, behind = {start}, {goal}
        from_start, from_goal = _walk(self._users, start, goal), _walk(self._sources, goal, start)
        for user, source in zip(from_start, from_goal, strict=False):
            ahead.add(user)
            behind.add(source)
            if user in behind or source in ahead:
                return True
        return False

    def contract(self, parent: AnnotatedRegion, region: AnnotatedRegion) -> None:
        """Make one unit of two regions, under the number of the second."""
        units = self._unit(parent.id), self._unit(region.id)
        gone, kept = sorted(units, key=self._degree)
        for edges, reverse in ((self._sources, self._users), (self._users, self._sources)):
            for unit in edges.pop(gone, {}):
                del reverse[unit][gone]
                if unit != kept:
                    edges.setdefault(kept, {})[unit] = None
                    reverse[unit][kept] = None
        self._unit_of[region.id] = kept

    def _connect(self, source: Expr, user: Expr) -> None:
        first, second = self._unit_with(source), self._unit_with(user)
        if first != second:
            self._users.setdefault(first, {})[second] = None
            self._sources.setdefault(second, {})[first] = None

    def _unit_with(self, node: Expr) -> Unit:
        region = self._regions.get_region(node)
        return node if region is None else region.id

    def _unit(self, number: int) -> Unit:
        return self._unit_of.get(number, number)

    def _degree(self, unit: Unit) -> int:
        return len(self._sources.get(unit, ())) + len(self._users.get(unit, ()))


def _walk(edges: Mapping[Unit, Iterable[Unit]], start: Unit, end: Unit) -> Iterator[Unit]:
    """Iterate over what `start` leads to, except over the edge to `end`; with repeats."""
    seen, queue = {start}, deque([start])
    while queue:
        unit = queue.popleft()
        for neighbour in edges.get(unit, ()):
            if unit == start and neighbour == end:
                continue
            if neighbour not in seen:
                seen.add(neighbour)
                queue.append(neighbour)
            yield neighbour


def _bindings(node: Expr) -> Iterator[tuple[Var, Expr]]:
    """Iterate over the variables that a node binds to a value, or to a part of one."""
    if isinstance(node, Let):
        yield node.var, node.value
    elif isinstance(node, Match):
        yield from ((var, node.data) for clause in node.clauses for var in clause.lhs.bound)
