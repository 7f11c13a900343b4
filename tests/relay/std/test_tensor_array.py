"""Tensor arrays: the results of their functions for every element type."""

import numpy as np
import numpy.typing as npt
import pytest

from apass.relay.expr import Call, Expr
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, Value
from apass.relay.ir.expr import const
from apass.relay.prelude import Prelude
from apass.relay.std.tensor_array import ELEMENT_TYPES
from apass.relay.type_inference.infer import infer_module


def counted(*shape: int) -> npt.NDArray[np.int64]:
    """Return consecutive numbers from 0 in the given shape."""
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


ROWS = counted(3, 4)


def arrays(value: Value) -> list[list[object]]:
    """Return the contents of the tensors of a tensor array."""
    assert isinstance(value, ADTValue)
    if value.constructor.name_hint == "Nil":
        return []
    if value.constructor.name_hint != "Cons":
        return [np.asarray(field).tolist() for field in value.fields]
    return [*arrays(value.fields[0]), *arrays(value.fields[1])]


class Arrays:
    """Builds and evaluates expressions on tensor arrays of one element type."""

    def __init__(self, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.prelude = Prelude()

    def call(self, name: str, *args: Expr) -> Expr:
        return Call(self.prelude.get_global_var(name, self.dtype), args)

    def tensor(self, value: npt.NDArray[np.int64]) -> Expr:
        constructor = self.prelude.get_tensor_ctor(f"tensor{value.ndim}", self.dtype)
        return Call(constructor, [const(value, self.dtype)])

    def unstacked(self) -> Expr:
        return self.call("tensor_array_unstack_tensor2", const(ROWS, self.dtype))

    def value(self, expr: Expr) -> list[list[object]]:
        self.prelude.mod["main"] = Function([], expr)
        return arrays(evaluate(infer_module(self.prelude.mod)))


def ints(*values: int) -> Expr:
    return const(np.array(values, "int32"))


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_stack_inverts_unstack(dtype: str) -> None:
    builder = Arrays(dtype)
    assert builder.value(builder.unstacked()) == ROWS.tolist()
    assert builder.value(builder.call("tensor_array_stack", builder.unstacked())) == [ROWS.tolist()]


def test_read_returns_written_element() -> None:
    builder = Arrays()
    empty = builder.call("tensor_array", const(2))
    assert builder.value(empty) == []
    written = builder.call("tensor_array_write", empty, const(1), builder.tensor(ROWS))
    assert builder.value(builder.call("tensor_array_read", written, const(1))) == [ROWS.tolist()]


def test_gather_and_scatter_select_elements_by_index() -> None:
    builder = Arrays()
    gathered = builder.call("tensor_array_gather", builder.unstacked(), ints(2, 0))
    assert builder.value(gathered) == [ROWS[[2, 0]].tolist()]
    empty = builder.call("tensor_array", const(3))
    scattered = builder.call("tensor_array_scatter", empty, ints(1, 2, 0), builder.unstacked())
    assert builder.value(scattered) == ROWS[[2, 0, 1]].tolist()


def test_concat_inverts_split() -> None:
    builder = Arrays()
    empty = builder.call("tensor_array", const(2))
    split = builder.call("tensor_array_split", empty, builder.tensor(ROWS), ints(1, 2))
    assert builder.value(split) == [ROWS[:1].tolist(), ROWS[1:].tolist()]
    assert builder.value(builder.call("tensor_array_concat", split)) == [ROWS.tolist()]


@pytest.mark.parametrize("rank", range(1, 7))
def test_unstack_stack_and_take_support_rank(rank: int) -> None:
    builder = Arrays("int32")
    value = counted(*(2,) * rank)
    unstacked = builder.call(f"tensor_array_unstack_tensor{rank}", const(value, "int32"))
    assert builder.value(unstacked) == value.tolist()
    assert builder.value(builder.call("tensor_array_stack", unstacked)) == [value.tolist()]
    taken = builder.call("tensor_take", builder.tensor(value), const(1), const(2))
    assert builder.value(taken) == [value[1:2].tolist()]


def test_definitions_have_the_names_of_tvm() -> None:
    prelude = Prelude()
    assert prelude.get_name("tensor_t", "int8") == "tensor_int8_t"
    assert prelude.get_type("tensor_t", "int8").name_hint == "tensor_int8_t"
    assert prelude.get_ctor("tensor_int8_t", "tensor_nil", "int8").name_hint == "tensor_nil_int8"
    assert prelude.get_global_var("tensor_array_read", "int8").name_hint == "tensor_array_read_int8"


def test_tensor_arrays_are_added_once() -> None:
    prelude = Prelude()
    first = prelude.get_tensor_ctor("tensor1", "float32")
    assert prelude.get_tensor_ctor("tensor1", "float32") is first


def test_unknown_element_type_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"^the element type .* must be one of float32, .*, got 'complex64'$"):
        Prelude().get_global_var("tensor_array", "complex64")
