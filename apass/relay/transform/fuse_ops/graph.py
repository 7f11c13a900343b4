"""`FusionGraph`: which results feed which, and how each operator may be fused; for FuseOps."""

from typing import Final

from apass.relay.adt import Match
from apass.relay.dataflow.dominators import NOWHERE, DominatorTree
from apass.relay.expr import Call, Constant, Expr, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.calls import known_type
from apass.relay.ir.post_order import post_order
from apass.relay.op.define.registry import OpPattern
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.ty import TensorType, TupleType

__all__ = ["PRIMITIVE", "FusionGraph", "stays"]

PRIMITIVE: Final = "Primitive"
"""The attribute of a function that is computed as one; 1, or 0 if it calls nothing."""

_RESULTS: Final = frozenset({Var, Constant, Call, Tuple, TupleGetItem, Let, If, Match, RefCreate, RefRead, RefWrite})
_SIMPLE_DTYPES: Final = frozenset({"int32", "int64", "float32", "float64", "bool"})


class FusionGraph:
    """The results that a typed expression computes, by number in post order, and how they depend on each other.

    What is used by anything but an operator, a tuple or a field of one is external: it must be there by itself.
    """

    def __init__(self, expr: Expr) -> None:
        nodes = [node for node in post_order(expr, stays) if not stays(node)]
        self.nodes: list[Expr] = [node for node in nodes if type(node) in _RESULTS]
        """The results."""
        self.numbers: dict[Expr, int] = {node: number for number, node in enumerate(self.nodes)}
        """Their numbers."""
        self.patterns: list[int] = [OpPattern.OPAQUE] * len(self.nodes)
        """How each may be fused, an OpPattern."""
        self.users: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        """For each result those that it is an operand of, and how they use it, an OpPattern."""
        self._external: set[Expr] = {expr}
        self._tensor_tuples: dict[Expr, bool] = {}
        for node in nodes:
            self._read(node)

    def post_dominators(self) -> DominatorTree:
        """Return the tree of where the paths from each result meet, weighted with how results are used on the way."""
        tree = DominatorTree(len(self.nodes))
        for number in reversed(range(len(self.nodes))):
            if self.nodes[number] in self._external:
                tree.attach(number, NOWHERE, OpPattern.OPAQUE)
            else:
                tree.attach_to_all(number, self.users[number])
        return tree

    def _read(self, node: Expr) -> None:
        """Note how a node may be fused, and how it uses what is below it."""
        if isinstance(node, Call):
            self._read_call(node)
        elif isinstance(node, Tuple):
            self._set(node, OpPattern.TUPLE)
            for one in node.fields:
                self._use(one, node if isinstance(known_type(one), TensorType) else None, OpPattern.INJECTIVE)
        elif isinstance(node, TupleGetItem) and self._holds_tensors(node.tuple_value):
            self._set(node, OpPattern.INJECTIVE)
            self._use(node.tuple_value, node, OpPattern.INJECTIVE)
        elif isinstance(node, Constant):
            is_simple = node.data.ndim == 0 and node.data.dtype_name in _SIMPLE_DTYPES
            self._set(node, OpPattern.ELEMWISE if is_simple else OpPattern.OPAQUE)
        else:
            self._external.update(node.children)

    def _read_call(self, call: Call) -> None:
        pattern = _pattern_of(call)
        self._set(call, pattern)
        self._external.add(call.op)
        shape = _shape(call) if pattern == OpPattern.BROADCAST else None
        for arg in call.args:
            is_same_shape = shape is not None and _shape(arg) == shape
            self._use(arg, call, OpPattern.ELEMWISE if is_same_shape else pattern)

    def _holds_tensors(self, tup: Expr) -> bool:
        """Tell whether a tuple is of tensors alone; found out once, however many of its fields are taken."""
        if tup not in self._tensor_tuples:
            ty = tup.checked_type
            is_so = isinstance(ty, TupleType) and all(isinstance(one, TensorType) for one in ty.fields)
            self._tensor_tuples[tup] = is_so
        return self._tensor_tuples[tup]

    def _set(self, node: Expr, pattern: int) -> None:
        self.patterns[self.numbers[node]] = pattern

    def _use(self, used: Expr, user: Expr | None, pattern: int) -> None:
        if user is None:
            self._external.add(used)
        elif used in self.numbers:
            self.users[self.numbers[used]].append((self.numbers[user], pattern))


def stays(node: Expr) -> bool:
    """Tell whether a node is a function that FuseOps leaves alone: it is primitive already, or compiled elsewhere."""
    if not isinstance(node, Function):
        return False
    return bool(node.attrs.get(PRIMITIVE)) or node.attrs.get("Compiler") is not None


def _pattern_of(call: Call) -> int:
    """Return how a call may be fused: as its operator, but not if its shape depends on data."""
    if not isinstance(call.op, Op):
        return OpPattern.OPAQUE
    ty = call.checked_type
    is_dynamic = isinstance(ty, TensorType) and not ty.is_static
    if is_dynamic and call.op.get_attr("TShapeDataDependent"):
        return OpPattern.OPAQUE
    pattern = call.op.get_attr("TOpPattern", OpPattern.OPAQUE)
    return pattern if isinstance(pattern, int) else OpPattern.OPAQUE


def _shape(node: Expr) -> object:
    ty = known_type(node)
    return ty.shape if isinstance(ty, TensorType) else None
