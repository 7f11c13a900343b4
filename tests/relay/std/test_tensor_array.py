"""Tensor arrays: they compute what their names say, for every element type that TVM has them of."""

import numpy as np
import numpy.typing as npt
import pytest

from apass.relay.expr import Call, Expr
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, Value
from apass.relay.make import const
from apass.relay.prelude import Prelude
from apass.relay.std.tensor_array import ELEMENT_TYPES
from apass.relay.type_inference.infer import infer_module


def counted(*shape: int) -> npt.NDArray[np.int64]:
    """Return the numbers from 0 in a shape."""
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


ROWS = counted(3, 4)


def arrays(value: Value) -> list[list[object]]:
    """Return what the tensors of an array hold."""
    assert isinstance(value, ADTValue)
    if value.constructor.name_hint == "Nil":
        return []
    if value.constructor.name_hint != "Cons":
        return [np.asarray(field).tolist() for field in value.fields]
    return [*arrays(value.fields[0]), *arrays(value.fields[1])]


class Arrays:
    """The tensor arrays of an element type."""

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
def test_what_is_unstacked_and_stacked_is_the_same(dtype: str) -> None:
    made = Arrays(dtype)
    assert made.value(made.unstacked()) == ROWS.tolist()
    assert made.value(made.call("tensor_array_stack", made.unstacked())) == [ROWS.tolist()]


def test_elements_are_read_and_written() -> None:
    made = Arrays()
    empty = made.call("tensor_array", const(2))
    assert made.value(empty) == []
    written = made.call("tensor_array_write", empty, const(1), made.tensor(ROWS))
    assert made.value(made.call("tensor_array_read", written, const(1))) == [ROWS.tolist()]


def test_elements_are_gathered_and_scattered() -> None:
    made = Arrays()
    assert made.value(made.call("tensor_array_gather", made.unstacked(), ints(2, 0))) == [ROWS[[2, 0]].tolist()]
    empty = made.call("tensor_array", const(3))
    scattered = made.call("tensor_array_scatter", empty, ints(1, 2, 0), made.unstacked())
    assert made.value(scattered) == ROWS[[2, 0, 1]].tolist()


def test_a_tensor_is_split_and_concatenated() -> None:
    made = Arrays()
    empty = made.call("tensor_array", const(2))
    split = made.call("tensor_array_split", empty, made.tensor(ROWS), ints(1, 2))
    assert made.value(split) == [ROWS[:1].tolist(), ROWS[1:].tolist()]
    assert made.value(made.call("tensor_array_concat", split)) == [ROWS.tolist()]


@pytest.mark.parametrize("rank", range(1, 7))
def test_every_rank_is_there(rank: int) -> None:
    made = Arrays("int32")
    value = counted(*(2,) * rank)
    unstacked = made.call(f"tensor_array_unstack_tensor{rank}", const(value, "int32"))
    assert made.value(unstacked) == value.tolist()
    assert made.value(made.call("tensor_array_stack", unstacked)) == [value.tolist()]
    taken = made.call("tensor_take", made.tensor(value), const(1), const(2))
    assert made.value(taken) == [value[1:2].tolist()]


def test_names_are_those_of_tvm() -> None:
    prelude = Prelude()
    assert prelude.get_name("tensor_t", "int8") == "tensor_int8_t"
    assert prelude.get_type("tensor_t", "int8").name_hint == "tensor_int8_t"
    assert prelude.get_ctor("tensor_int8_t", "tensor_nil", "int8").name_hint == "tensor_nil_int8"
    assert prelude.get_global_var("tensor_array_read", "int8").name_hint == "tensor_array_read_int8"


def test_they_are_added_once() -> None:
    prelude = Prelude()
    first = prelude.get_tensor_ctor("tensor1", "float32")
    assert prelude.get_tensor_ctor("tensor1", "float32") is first


def test_an_element_type_that_tvm_has_none_of_is_told() -> None:
    with pytest.raises(ValueError, match="there are no tensor arrays of 'complex64'; there are those of float32, "):
        Prelude().get_global_var("tensor_array", "complex64")
