"""Types and constant values of expressions during an import."""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import TypeAlias

from apass.relay.ir.expr import Call, Constant, Expr, If, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.ndarray import Array, NDArray
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import Any, Dim, IncompleteType, TensorType, TupleType, Type

__all__ = ["Facts", "Source", "Value", "join_types"]

Value: TypeAlias = Array | tuple["Value", ...]
"""The value of an expression: an array, or a tuple of values."""


class Source(IntEnum):
    """The most variable kind of source that the value of an expression depends on."""

    CONSTANT = 0
    """Constants of the model."""
    WEIGHT = 1
    """Initializers, which may be parameters of the function."""
    INPUT = 2
    """Inputs of the model or random numbers: the value is not known at import."""


class Facts:
    """Types and values of expressions.

    Each is computed once, so that an import takes time linear in the size of the model.
    """

    def __init__(self) -> None:
        self.weights: dict[Var, NDArray] = {}
        """The values of the variables that represent initializers."""
        self._types: dict[Expr, Type] = {}
        self._sources: dict[Expr, Source] = {}
        self._values: dict[Expr, Value] = {}

    def declare(self, expr: Expr, ty: Type) -> None:
        """Set the type of an expression that type relations cannot compute."""
        self._types[expr] = ty

    def type_of(self, expr: Expr) -> Type:
        """Return the type of an expression, computed from the types of its variables.

        Raises:
            TypeInferenceError: if type inference fails.

        """
        for node in _new(expr, self._types):
            self._types[node] = self._forward_type(node)
        return self._types[expr]

    def source_of(self, expr: Expr) -> Source:
        """Return the kind of source that the value of an expression depends on."""
        for node in _new(expr, self._sources):
            self._sources[node] = self._source(node)
        return self._sources[expr]

    def value_of(self, expr: Expr) -> Value | None:
        """Return the value of an expression, or None if it depends on an input."""
        if self.source_of(expr) is Source.INPUT:
            return None
        for node in _new(expr, self._values):
            self._values[node] = self._evaluate(node)
        return self._values[expr]

    def _forward_type(self, expr: Expr) -> Type:
        types = self._types
        if isinstance(expr, Var | Constant):
            return expr.checked_type
        if isinstance(expr, Tuple):
            return TupleType(types[field] for field in expr.fields)
        if isinstance(expr, TupleGetItem):
            whole = types[expr.tuple_value]
            assert isinstance(whole, TupleType)
            return whole.fields[expr.index]
        if isinstance(expr, If):
            return join_types(types[expr.true_branch], types[expr.false_branch])
        assert isinstance(expr, Call), f"the type of {expr!r} was not declared"
        return _result_type(expr, [types[arg] for arg in expr.args])

    def _source(self, expr: Expr) -> Source:
        if isinstance(expr, Var):
            return Source.WEIGHT if expr in self.weights else Source.INPUT
        if isinstance(expr, Constant):
            return Source.CONSTANT
        if not isinstance(expr, Call | Tuple | TupleGetItem):
            return Source.INPUT
        if isinstance(expr, Call) and not _is_pure(expr.op):
            return Source.INPUT
        below = expr.args if isinstance(expr, Call) else expr.children
        return max((self._sources[child] for child in below), default=Source.CONSTANT)

    def _evaluate(self, expr: Expr) -> Value:
        values = self._values
        if isinstance(expr, Var):
            return self.weights[expr].numpy()
        if isinstance(expr, Constant):
            return expr.data.numpy()
        if isinstance(expr, Tuple):
            return tuple(values[field] for field in expr.fields)
        if isinstance(expr, TupleGetItem):
            whole = values[expr.tuple_value]
            assert isinstance(whole, tuple)
            return whole[expr.index]
        assert isinstance(expr, Call), expr
        return _compute(expr, [values[arg] for arg in expr.args])


def _new(expr: Expr, done: Collection[Expr]) -> Iterable[Expr]:
    """Iterate in post-order over the descendants that are not in `done`.

    Operators are left out: they have neither types nor values.
    """
    return (node for node in post_order(expr, done.__contains__) if node not in done and not isinstance(node, Op))


def _is_pure(op: Expr) -> bool:
    return isinstance(op, Op) and op.compute is not None and not op.get_attr("TOpIsStateful")


def _result_type(call: Call, types: list[Type]) -> Type:
    assert isinstance(call.op, Op), f"the type of {call!r} was not declared"
    assert call.op.relation is not None, f"{call.op.name} has no type relation"
    solved = call.op.relation([*types, IncompleteType()], call.attrs)
    result = None if solved is None else solved[-1]
    assert result is not None, f"{call.op.name} has no type for inputs of {', '.join(map(str, types))}"
    return result


def _compute(call: Call, inputs: list[Value]) -> Value:
    assert isinstance(call.op, Op)
    assert call.op.compute is not None
    return call.op.compute(*inputs) if call.op.attrs_type is None else call.op.compute(call.attrs, *inputs)


def join_types(left: Type, right: Type) -> Type:
    """Return the most specific type that covers two types.

    Dimensions that differ become unknown.

    Raises:
        ValueError: if the types differ in more than dimensions.

    """
    if isinstance(left, TupleType) and isinstance(right, TupleType) and len(left.fields) == len(right.fields):
        return TupleType(join_types(*pair) for pair in zip(left.fields, right.fields, strict=True))
    if isinstance(left, TensorType) and isinstance(right, TensorType) and _match(left, right):
        return TensorType(_join_dims(zip(left.shape, right.shape, strict=True)), left.dtype)
    if left == right:
        return left
    raise ValueError(f"cannot join the types {left} and {right}")


def _match(left: TensorType, right: TensorType) -> bool:
    return left.dtype == right.dtype and len(left.shape) == len(right.shape)


def _join_dims(pairs: Iterable[tuple[Dim, Dim]]) -> Iterable[Dim]:
    return (a if a == b else Any() for a, b in pairs)
