"""Random shapes, axes, and variables with values, for calls of operators."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from apass.relay.expr import Call, Constant, Expr, Op, Tuple, Var
from apass.relay.ir.expr import var
from apass.relay.ir.ndarray import Array
from apass.relay.ty import TensorType, TupleType, Type

__all__ = ["Draw", "inputs_of", "result_of", "type_of"]

T = TypeVar("T")
Value = Array | tuple[Array, ...]


@dataclass
class Draw:
    """A source of random shapes and tensors; it stores the value of each variable."""

    data: st.DataObject
    values: dict[Var, Array] = field(default_factory=dict[Var, Array])

    def number(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.data.draw(st.booleans())

    def one_of(self, *choices: T) -> T:
        return self.data.draw(st.sampled_from(choices))

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        """Return a shape of `low` to `high` dimensions."""
        return tuple(self.number(1, 4) for _ in range(self.number(low, high)))

    def axis(self, rank: int) -> int:
        """Return an axis, counted from either end."""
        return self.number(-rank, rank - 1)

    def axes(self, rank: int) -> list[int] | None:
        """Return several axes, or None."""
        chosen = self.data.draw(st.none() | st.sets(st.integers(0, rank - 1))) if rank else None
        return None if chosen is None else [axis - rank if self.flag() else axis for axis in sorted(chosen)]

    def narrowed(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return a shape that broadcasts to another."""
        return tuple(1 if self.flag() else dim for dim in shape[self.number(0, len(shape)) :])

    def variable(self, array: Array) -> Var:
        """Return a new variable with a value."""
        result = var(f"x{len(self.values)}", shape=array.shape, dtype=str(array.dtype))
        self.values[result] = array
        return result

    def dtype(self) -> str:
        return self.one_of("float32", "float64", "float16", "int8", "int32", "int64", "uint8")

    def tensor(self, shape: Iterable[int], dtype: str = "float32") -> Var:
        """Return a variable of small numbers, also negative ones for signed types."""
        rng = np.random.default_rng(self.number(0, 2**16))
        low = 0 if dtype in ("bool", "uint8") else -4
        return self.variable(np.asarray(rng.uniform(low, 4, tuple(shape))).astype(dtype))

    def indices(self, shape: Iterable[int], length: int) -> Var:
        """Return a variable of indices below `length`."""
        rng = np.random.default_rng(self.number(0, 2**16))
        return self.variable(np.asarray(rng.integers(0, length, tuple(shape))).astype(self.one_of("int32", "int64")))


def _value(expr: Expr, values: dict[Var, Array]) -> Value:
    if isinstance(expr, Tuple):
        return tuple(values[field] for field in expr.fields if isinstance(field, Var))
    if isinstance(expr, Constant):
        return expr.data.numpy()
    assert isinstance(expr, Var)
    return values[expr]


def inputs_of(call: Call, draw: Draw) -> list[Value]:
    """Return the values of the arguments of a call."""
    return [_value(arg, draw.values) for arg in call.args]


def result_of(call: Call, draw: Draw) -> Value:
    """Return the result of the called operator's kernel."""
    assert isinstance(call.op, Op)
    assert call.op.compute is not None
    inputs = inputs_of(call, draw)
    return call.op.compute(*inputs) if call.op.attrs_type is None else call.op.compute(call.attrs, *inputs)


def type_of(value: Value) -> Type:
    """Return the type of a value."""
    if isinstance(value, tuple):
        return TupleType(map(type_of, value))
    return TensorType(value.shape, str(value.dtype))
