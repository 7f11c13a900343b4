"""`FusionGraph`: dataflow between results, and their fusion patterns."""

from typing import Final

from apass.relay.dataflow.dominators import NOWHERE, DominatorTree
from apass.relay.ir.adt import Match
from apass.relay.ir.calls import known_type
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType, TupleType
from apass.relay.op.define.registry import OpPattern

__all__ = ["PRIMITIVE", "FusionGraph", "stays"]

PRIMITIVE: Final = "Primitive"
"""Attribute of a function that is computed as one kernel: 1, or 0 if it calls nothing."""

_RESULTS: Final = frozenset({Var, Constant, Call, Tuple, TupleGetItem, Let, If, Match, RefCreate, RefRead, RefWrite})
_SIMPLE_DTYPES: Final = frozenset({"int32", "int64", "float32", "float64", "bool"})


class FusionGraph:
    """The results that a typed expression computes, and their uses of each other.

    Results are numbered in post order. A result is external if it has a user that is not an operator, a tuple or a
    field of a tuple. External results must be available outside of primitive functions.
    """

    def __init__(self, expr: Expr) -> None:
        nodes = [node for node in post_order(expr, stays) if not stays(node)]
        self.nodes: list[Expr] = [node for node in nodes if type(node) in _RESULTS]
        """The results."""
        self.numbers: dict[Expr, int] = {node: number for number, node in enumerate(self.nodes)}
        """The number of each result."""
        self.patterns: list[int] = [OpPattern.OPAQUE] * len(self.nodes)
        """How each result may be fused, as an OpPattern."""
        self.users: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        """The users of each result, and how each uses it, as an OpPattern."""
        self._external: set[Expr] = {expr}
        self._tensor_tuples: dict[Expr, bool] = {}
        for node in nodes:
            self._read(node)

    def post_dominators(self) -> DominatorTree:
        """Return the post-dominator tree, with weights for the uses on the way.

        The parent of a result is where all paths from it meet. A weight is an OpPattern.
        """
        tree = DominatorTree(len(self.nodes))
        for number in reversed(range(len(self.nodes))):
            if self.nodes[number] in self._external:
                tree.attach(number, NOWHERE, OpPattern.OPAQUE)
            else:
                tree.attach_to_all(number, self.users[number])
        return tree

    def _read(self, node: Expr) -> None:
        """Record how a node may be fused, and how it uses its operands."""
        if isinstance(node, Call):
            self._read_call(node)
        elif isinstance(node, Tuple):
            self._set(node, OpPattern.TUPLE)
            for operand in node.fields:
                is_tensor = isinstance(known_type(operand), TensorType)
                self._use(operand, node if is_tensor else None, OpPattern.INJECTIVE)
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
        """Return whether all fields of a tuple are tensors."""
        # Cached per tuple: one check for each field taken would be quadratic.
        if tup not in self._tensor_tuples:
            ty = tup.checked_type
            holds = isinstance(ty, TupleType) and all(isinstance(field, TensorType) for field in ty.fields)
            self._tensor_tuples[tup] = holds
        return self._tensor_tuples[tup]

    def _set(self, node: Expr, pattern: int) -> None:
        self.patterns[self.numbers[node]] = pattern

    def _use(self, used: Expr, user: Expr | None, pattern: int) -> None:
        if user is None:
            self._external.add(used)
        elif used in self.numbers:
            self.users[self.numbers[used]].append((self.numbers[user], pattern))


def stays(node: Expr) -> bool:
    """Return whether FuseOps leaves a node as it is.

    Such a node is a primitive function, or a function for another compiler.
    """
    if not isinstance(node, Function):
        return False
    return bool(node.attrs.get(PRIMITIVE)) or node.attrs.get("Compiler") is not None


def _pattern_of(call: Call) -> int:
    """Return the pattern of the operator; opaque if the output shape depends on data."""
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
