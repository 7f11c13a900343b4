"""`create_executor`: TVM's interface to run programs."""

from typing import cast

import numpy as np
import pytest

from apass import relay
from apass.relay.adt import Constructor
from apass.relay.expr import Call, Expr, GlobalVar, RefCreate, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.interpreter.executor import create_executor
from apass.relay.interpreter.values import ADTValue, RefValue
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.parser import parse
from apass.relay.ty import TensorType, TupleType

X, Y = var("x", shape=(2,)), var("y", shape=(2,))
ONE_TWO = np.array([1, 2], "float32")


def numbers(value: object) -> object:
    assert isinstance(value, NDArray)
    return value.numpy().tolist()


def result(func: object, *args: object, **params: object) -> object:
    assert callable(func)
    return func(*args, **params)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_function_evaluates_to_callable(kind: str) -> None:
    func = create_executor(kind).evaluate(Function([X, Y], add(X, multiply(Y, Y))))
    assert numbers(result(func, ONE_TWO, ONE_TWO)) == numbers(result(func, ONE_TWO, y=ONE_TWO)) == [2, 6]


def test_evaluate_returns_main_with_bound_parameters() -> None:
    mod = IRModule.from_expr(Function([X, Y], add(X, Y)))
    assert numbers(result(create_executor(mod=mod).evaluate(), ONE_TWO, ONE_TWO)) == [2, 4]
    with_params = create_executor("debug", mod, None, "llvm", {"y": ONE_TWO})
    assert numbers(result(with_params.evaluate(), ONE_TWO)) == [2, 4]
    assert len(mod["main"].params) == 2


def test_expression_calls_functions_of_module() -> None:
    twice = GlobalVar("twice")
    mod = IRModule({twice: Function([X], add(X, X))})
    executor = create_executor(mod=mod)
    call: Expr = Call(twice, [X])
    assert numbers(executor.evaluate(call, {X: ONE_TWO})) == [2, 4]
    assert numbers(result(executor.evaluate(twice), ONE_TWO)) == [2, 4]


def test_tuple_fields_are_ndarrays() -> None:
    value = create_executor().evaluate(Tuple([const(1), Tuple([const(2.5)])]))
    first, (second,) = cast("tuple[object, tuple[object]]", value)
    assert (numbers(first), numbers(second)) == (1, 2.5)


def test_arrays_in_lists_and_cells_are_ndarrays() -> None:
    prelude = relay.Prelude()
    _, cons, nil = prelude.mod.get_type("List")
    assert isinstance(cons, Constructor)
    assert isinstance(nil, Constructor)
    cell = RefCreate(const(2.5))
    value = create_executor(mod=prelude.mod).evaluate(Tuple([cons(const(1), nil()), cell]))
    row, ref = cast("tuple[ADTValue, RefValue]", value)
    head, rest = row.fields
    assert (numbers(head), numbers(ref.value)) == (1, 2.5)
    assert isinstance(rest, ADTValue)
    assert rest.constructor is nil


def test_cyclic_cell_and_long_list_are_converted() -> None:
    mod = parse(
        """#[version = "0.0.5"]
        type Chain { End, Link(ref(Chain)), }
        type Row { None, Next(int32, Row), }
        def @ring() -> ref(Chain) {
          let %cell = ref(End);
          let %tied = ref_write(%cell, Link(%cell));
          %cell
        }
        def @row(%n: int32, %rest: Row) -> Row {
          if (equal(%n, 0)) { %rest } else { @row(subtract(%n, 1), Next(%n, %rest)) }
        }
        """
    )
    executor = create_executor(mod=mod)
    ring = result(executor.evaluate(mod.get_global_var("ring")))
    assert isinstance(ring, RefValue)
    assert isinstance(ring.value, ADTValue)
    assert ring.value.fields[0] is ring
    none = ADTValue(mod.get_constructor("Row", "None"), ())
    row = result(executor.evaluate(mod.get_global_var("row")), 5000, none)
    assert isinstance(row, ADTValue)
    assert numbers(row.fields[0]) == 1


def test_invalid_kind_or_missing_arguments_raise() -> None:
    with pytest.raises(ValueError, match="unknown executor kind 'debugg'; did you mean 'debug'"):
        create_executor("debugg")
    with pytest.raises(relay.EvaluationError, match="the function requires 1 arguments, got none"):
        result(create_executor().evaluate(Function([X], X)))


@pytest.mark.parametrize("arg", [np.array([1, 2]), [1, 2], const([1.0, 2.0], "float64"), NDArray.of([1.0, 2.0])])
def test_arguments_get_element_type_of_parameter(arg: object) -> None:
    value = result(create_executor().evaluate(Function([X], add(X, X))), arg)
    assert isinstance(value, NDArray)
    assert (value.dtype, value.tolist()) == (np.dtype("float32"), [2, 4])
    assert numbers(result(create_executor().evaluate(Function([X], add(X, X))), x=arg)) == [2, 4]


def test_numbers_and_lists_are_scalars_and_tuples() -> None:
    scalar = var("s", shape=(), dtype="int64")
    pair = var("pair", TupleType([TensorType((2,)), TupleType([TensorType((), "int8")])]))
    body = Tuple([TupleGetItem(pair, 0), TupleGetItem(TupleGetItem(pair, 1), 0), scalar])
    func = create_executor().evaluate(Function([pair, scalar], body))
    value = result(func, [[1, 2], [const(3)]], 4.0)
    assert isinstance(value, tuple)
    assert [(str(field.dtype), field.tolist()) for field in cast("tuple[NDArray, ...]", value)] == [
        ("float32", [1, 2]),
        ("int8", 3),
        ("int64", 4),
    ]
    untyped = var("untyped")
    fields = result(create_executor().evaluate(Function([untyped], untyped)), [ONE_TWO, 3])
    assert list(map(numbers, cast("tuple[object, ...]", fields))) == [[1, 2], 3]


@pytest.mark.parametrize(
    ("arg", "message"),
    [
        ("text", "argument x must be an array, a number or a tuple of these, got 'text'"),
        ([1, 2, 3], r"argument x must be of type Tensor\[\(2\), float32\], got float32\[3\]"),
        ([[1], [1, 2]], "argument x must be an array, but its rows differ in length"),
    ],
)
def test_arguments_of_other_shape_raise(arg: object, message: str) -> None:
    with pytest.raises(relay.EvaluationError, match=message):
        result(create_executor().evaluate(Function([X], X)), arg)
