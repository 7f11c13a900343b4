"""What is known about expressions while a model is imported: their types, and the values of those that are constant."""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import TypeAlias

from apass.relay.expr import Call, Constant, Expr, If, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.ndarray import Array, NDArray
from apass.relay.ir.post_order import post_order
from apass.relay.ty import Any, Dim, IncompleteType, TensorType, TupleType, Type

__all__ = ["Facts", "Source", "Value", "joined"]

Value: TypeAlias = Array | tuple["Value", ...]
"""The value of an expression: an array, or a tuple of values."""


class Source(IntEnum):
    """What the value of an expression depends on, at the most."""

    CONSTANT = 0
    """Constants of the model."""
    WEIGHT = 1
    """Initializers, which may be parameters of the function."""
    INPUT = 2
    """Inputs of the model, or chance: the value is not known now."""


class Facts:
    """Types and values of expressions, each worked out once, so that an import takes time linear in the model."""

    def __init__(self) -> None:
        self.weights: dict[Var, NDArray] = {}
        """The values of the variables that stand for initializers."""
        self._types: dict[Expr, Type] = {}
        self._sources: dict[Expr, Source] = {}
        self._values: dict[Expr, Value] = {}

    def declare(self, expr: Expr, ty: Type) -> None:
        """State the type of an expression that the type relations of operators do not give."""
        self._types[expr] = ty

    def type_of(self, expr: Expr) -> Type:
        """Return the type of an expression, from those of its variables.

        Raises:
            TypeInferenceError: if it has none.

        """
        for one in _new(expr, self._types):
            self._types[one] = self._forward_type(one)
        return self._types[expr]

    def source_of(self, expr: Expr) -> Source:
        """Return what the value of an expression depends on."""
        for one in _new(expr, self._sources):
            self._sources[one] = self._source(one)
        return self._sources[expr]

    def value_of(self, expr: Expr) -> Value | None:
        """Return the value of an expression of constants and weights alone; None if it depends on an input."""
        if self.source_of(expr) is Source.INPUT:
            return None
        for one in _new(expr, self._values):
            self._values[one] = self._evaluate(one)
        return self._values[expr]

    def _forward_type(self, expr: Expr) -> Type:
        types = self._types
        if isinstance(expr, Var | Constant):
            return expr.checked_type
        if isinstance(expr, Tuple):
            return TupleType(types[one] for one in expr.fields)
        if isinstance(expr, TupleGetItem):
            whole = types[expr.tuple_value]
            assert isinstance(whole, TupleType)
            return whole.fields[expr.index]
        if isinstance(expr, If):
            return joined(types[expr.true_branch], types[expr.false_branch])
        assert isinstance(expr, Call), f"the type of {expr!r} was not declared"
        return _result_type(expr, [types[one] for one in expr.args])

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
        return max((self._sources[one] for one in below), default=Source.CONSTANT)

    def _evaluate(self, expr: Expr) -> Value:
        values = self._values
        if isinstance(expr, Var):
            return self.weights[expr].numpy()
        if isinstance(expr, Constant):
            return expr.data.numpy()
        if isinstance(expr, Tuple):
            return tuple(values[one] for one in expr.fields)
        if isinstance(expr, TupleGetItem):
            whole = values[expr.tuple_value]
            assert isinstance(whole, tuple)
            return whole[expr.index]
        assert isinstance(expr, Call), expr
        return _computed(expr, [values[one] for one in expr.args])


def _new(expr: Expr, known: Collection[Expr]) -> Iterable[Expr]:
    """Go over what is not known yet of an expression and all below it; operators have neither types nor values."""
    return (one for one in post_order(expr, known.__contains__) if one not in known and not isinstance(one, Op))


def _is_pure(op: Expr) -> bool:
    return isinstance(op, Op) and op.compute is not None and not op.get_attr("TOpIsStateful")


def _result_type(call: Call, types: list[Type]) -> Type:
    assert isinstance(call.op, Op), f"the type of {call!r} was not declared"
    assert call.op.relation is not None, f"{call.op.name} has no type relation"
    found = call.op.relation([*types, IncompleteType()], call.attrs)
    result = None if found is None else found[-1]
    assert result is not None, f"{call.op.name} has no type for inputs of {', '.join(map(str, types))}"
    return result


def _computed(call: Call, inputs: list[Value]) -> Value:
    assert isinstance(call.op, Op)
    assert call.op.compute is not None
    return call.op.compute(*inputs) if call.op.attrs_type is None else call.op.compute(call.attrs, *inputs)


def joined(one: Type, other: Type) -> Type:
    """Return the type of what is of the one or the other: dimensions that differ are not known.

    Raises:
        ValueError: if they differ in more than dimensions.

    """
    if isinstance(one, TupleType) and isinstance(other, TupleType) and len(one.fields) == len(other.fields):
        return TupleType(joined(*pair) for pair in zip(one.fields, other.fields, strict=True))
    if isinstance(one, TensorType) and isinstance(other, TensorType) and _are_alike(one, other):
        return TensorType(_joined_dims(zip(one.shape, other.shape, strict=True)), one.dtype)
    if one == other:
        return one
    raise ValueError(f"a value cannot be of the types {one} and {other} both")


def _are_alike(one: TensorType, other: TensorType) -> bool:
    return one.dtype == other.dtype and len(one.shape) == len(other.shape)


def _joined_dims(pairs: Iterable[tuple[Dim, Dim]]) -> Iterable[Dim]:
    return (a if a == b else Any() for a, b in pairs)
