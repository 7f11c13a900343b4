"""`all_dtypes`, `list_op_types` and `check_constant`."""

from apass.relay.analysis import (
    all_dtypes,
    all_type_vars,
    bound_type_vars,
    check_constant,
    free_type_vars,
    list_op_types,
)
from apass.relay.expr import Tuple
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op import cast
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ref import RefCreate
from apass.relay.ty import FuncType, RefType, TensorType, TypeVar
from apass.relay.type_inference.infer import infer_expr

X = var("x", shape=(2,))


def test_all_element_types_are_found_within_tuples_and_functions_too() -> None:
    expr = Tuple([cast(add(X, X), "int8"), const(True), RefCreate(const(1.0, "float16"))])
    assert all_dtypes(infer_expr(expr)) == {"float32", "int8", "bool", "float16"}
    assert all_dtypes(expr) == {"float32", "bool", "float16"}


def test_each_operator_is_listed_once() -> None:
    assert list_op_types(cast(add(add(X, X), X), "int8")) == ["add", "cast"]


def test_only_constants_and_tuples_of_them_are_constant() -> None:
    assert check_constant(Tuple([const(1), Tuple([const(2)])]))
    assert not check_constant(add(const(1), const(2)))
    assert not check_constant(Tuple([const(1), X]))


def test_type_variables_may_be_asked_for_with_a_module_as_in_tvm() -> None:
    a, mod = TypeVar("a"), IRModule()
    identity = Function([x := var("x", a)], x, a, [a])
    assert all_type_vars(identity, mod) == bound_type_vars(identity, mod) == [a]
    assert free_type_vars(identity, mod) == []


def test_what_a_function_takes_and_gives_and_a_cell_holds_is_found_in_their_types() -> None:
    func = var("f", FuncType([TensorType((), "int8")], TensorType((), "float16")))
    cell = var("c", RefType(TensorType((), "uint8")))
    assert all_dtypes(func) == {"int8", "float16"}
    assert all_dtypes(cell) == {"uint8"}
