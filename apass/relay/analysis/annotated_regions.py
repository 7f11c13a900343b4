"""`AnnotatedRegionSet`: the regions of a program that are marked for compilers.

The counterpart of TVM's `annotated_region_set.cc`.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeVar

from apass.relay.errors import AnnotationError
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Expr, Op, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem
from apass.relay.ir.post_order import post_order

__all__ = ["AnnotatedRegion", "AnnotatedRegionSet"]

T = TypeVar("T")


class AnnotatedRegion:
    """A region for one compiler: the nodes between marks for its begin and its end."""

    __slots__ = ("_ins", "_merged_into", "_nodes", "_outs", "id", "name", "target")

    def __init__(self, number: int, target: str, name: str, begin: Call) -> None:
        """Create a region of one node, the mark on an input."""
        self.id: int = number
        """The number of the region, unique in its set."""
        self.target: str = target
        """The name of the compiler."""
        self.name: str = name
        """The name of the function that contains the region."""
        self._nodes: deque[Expr] = deque([begin])
        self._ins: deque[Call] = deque([begin])
        self._outs: deque[Call] = deque()
        self._merged_into: AnnotatedRegion | None = None

    @property
    def nodes(self) -> tuple[Expr, ...]:
        """The nodes of the region, its marks included."""
        return tuple(self._nodes)

    @property
    def args(self) -> tuple[Call, ...]:
        """The marks on the inputs of the region."""
        ends = set(self._outs)
        return tuple(begin for begin in self._ins if begin.args[0] not in ends)

    @property
    def rets(self) -> tuple[Call, ...]:
        """The marks on the outputs of the region; none while the region is open."""
        inner = {begin.args[0] for begin in self._ins}
        return tuple(end for end in self._outs if end not in inner)

    def __repr__(self) -> str:
        """Return the number and the compiler."""
        return f"<relay.AnnotatedRegion {self.id} for {self.target}>"

    def add(self, node: Expr) -> None:
        """Add an unmarked node."""
        self._nodes.append(node)

    def close(self, end: Call) -> None:
        """Add a mark on an output."""
        self._nodes.append(end)
        self._outs.append(end)

    def absorb(self, other: "AnnotatedRegion") -> None:
        """Add all nodes of another region, and resolve that region to this one."""
        self._nodes = _joined(self._nodes, other._nodes)
        self._ins = _joined(self._ins, other._ins)
        self._outs = _joined(self._outs, other._outs)
        other._merged_into = self

    def resolved(self) -> "AnnotatedRegion":
        """Return the region that contains this one after all merges."""
        root = self
        while root._merged_into is not None:
            root = root._merged_into
        region = self
        while region._merged_into is not None:
            region._merged_into, region = root, region._merged_into
        return root


class AnnotatedRegionSet:
    """The regions of an expression, which grow when they are merged.

    A mark for a begin opens a region, which contains the calls and tuples that use it. A mark for an end closes it
    there. Operands of a node in a region are in that region as well, or are results of closed regions.

    >>> from apass.relay.ir.expr import var
    >>> from apass.relay.op.annotation import compiler_begin, compiler_end
    >>> from apass.relay.op.elementwise.math import exp
    >>> end = compiler_end(exp(compiler_begin(var("x"), "dnnl")), "dnnl")
    >>> regions = AnnotatedRegionSet(end, Op.get("annotation.compiler_begin"), Op.get("annotation.compiler_end"))
    >>> regions.get_region(end)
    <relay.AnnotatedRegion 0 for dnnl>
    """

    def __init__(self, expr: Expr, region_begin_op: Op, region_end_op: Op, func_name: str = "default") -> None:
        """Find the regions of an expression.

        Parameters:
            expr: the expression.
            region_begin_op: the operator that marks inputs. Its attribute `compiler` is the name of the compiler.
            region_end_op: the operator that marks outputs.
            func_name: the name of the function that contains the expression.

        Raises:
            AnnotationError: if an end has no begin, or one for another compiler, or if some operands of a node are in
                a region and others are unmarked.

        """
        self._begin = region_begin_op.name
        self._end = region_end_op.name
        self.name: str = func_name
        """The name of the function that contains the regions."""
        self._count = 0
        self._region_of: dict[Expr, AnnotatedRegion] = {}
        for node in post_order(expr):
            self._visit(node)

    def get_region(self, expr: Expr) -> AnnotatedRegion | None:
        """Return the region of a node, or None if it is in none."""
        region = self._region_of.get(expr)
        return None if region is None else region.resolved()

    def merge_regions(self, src: AnnotatedRegion, dest: AnnotatedRegion) -> None:
        """Add the nodes of `src` to `dest`; marks between the two become inner nodes."""
        source, target = src.resolved(), dest.resolved()
        if source is not target:
            target.absorb(source)

    def __len__(self) -> int:
        """Return the number of regions."""
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        """Iterate over the regions, in order of their first nodes."""
        return iter(dict.fromkeys(region.resolved() for region in self._region_of.values()))

    def _visit(self, node: Expr) -> None:
        if isinstance(node, Call):
            if op_name(node) == self._begin:
                self._region_of[node] = AnnotatedRegion(self._count, _compiler(node), self.name, node)
                self._count += 1
            elif op_name(node) == self._end:
                self._close(node)
            else:
                self._add(node, node.args)
        elif isinstance(node, Tuple | TupleGetItem | RefCreate | RefRead | RefWrite):
            self._add(node, node.children)

    def _close(self, end: Call) -> None:
        region = self.get_region(end.args[0])
        if region is None:
            raise AnnotationError(
                f"{self._end} for {_compiler(end)!r} is on {end.args[0]!r}, which is in no region; "
                f"put {self._begin} on each of its operands"
            )
        if region.target != _compiler(end):
            raise AnnotationError(
                f"{self._end} for {_compiler(end)!r} is on {end.args[0]!r}, which is in a region for "
                f"{region.target!r}; use one compiler for all marks of a region"
            )
        region.close(end)
        self._region_of[end] = region

    def _add(self, node: Expr, operands: Sequence[Expr]) -> None:
        """Add a node to the open regions of its operands, which become one."""
        inner = [operand for operand in operands if op_name(operand) != self._end]
        regions = [self.get_region(operand) for operand in inner]
        region = next((one for one in regions if one is not None), None)
        if region is None:
            return
        for operand, other in zip(inner, regions, strict=True):
            if other is None:
                raise AnnotationError(
                    f"operand {operand!r} of {node!r} is in no region, but another operand is in one for "
                    f"{region.target!r}; put {self._begin} on each operand or on none"
                )
            self.merge_regions(other, region)
        region.add(node)
        self._region_of[node] = region


def _compiler(mark: Call) -> str:
    names = () if mark.attrs is None else mark.attrs.keys()
    if mark.attrs is None or "compiler" not in names:
        raise AnnotationError(f"{mark!r} has no attribute compiler; use relay.annotation.compiler_begin")
    return mark.attrs.get_str("compiler")


def _joined(first: deque[T], second: deque[T]) -> deque[T]:
    """Return one list of both, at the cost of the shorter one."""
    if len(first) >= len(second):
        first.extend(second)
        return first
    second.extendleft(reversed(first))
    return second
