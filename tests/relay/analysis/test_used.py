"""`all_dtypes`, `list_op_types`, `list_op_freqs` and `check_constant`."""

from apass.relay.analysis import (
    all_dtypes,
    all_type_vars,
    bound_type_vars,
    check_constant,
    free_type_vars,
    list_op_freqs,
    list_op_types,
)
from apass.relay.expr import Call, Tuple
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op import cast
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ty import FuncType, RefType, TensorType, TypeVar
from apass.relay.type_inference.infer import infer_expr

X = var("x", shape=(2,))


def test_all_dtypes_descends_into_composite_types() -> None:
    expr = Tuple([cast(add(X, X), "int8"), const(True), RefCreate(const(1.0, "float16"))])
    assert all_dtypes(infer_expr(expr)) == {"float32", "int8", "bool", "float16"}
    assert all_dtypes(expr) == {"float32", "bool", "float16"}


def test_list_op_types_lists_each_operator_once() -> None:
    assert list_op_types(cast(add(add(X, X), X), "int8")) == ["add", "cast"]


def test_list_op_freqs_counts_calls_of_main() -> None:
    fused = Function([y := var("y", shape=(2,))], add(y, y), attrs={"Primitive": 1})
    mod = IRModule({"main": Function([X], cast(add(Call(fused, [X]), X), "int8")), "other": Function([X], add(X, X))})
    assert list_op_freqs(mod) == {"add": 2, "cast": 1}


def test_check_constant_accepts_constants_and_tuples_of_constants() -> None:
    assert check_constant(Tuple([const(1), Tuple([const(2)])]))
    assert not check_constant(add(const(1), const(2)))
    assert not check_constant(Tuple([const(1), X]))


def test_type_var_queries_accept_module_as_in_tvm() -> None:
    a, mod = TypeVar("a"), IRModule()
    identity = Function([x := var("x", a)], x, a, [a])
    assert all_type_vars(identity, mod) == bound_type_vars(identity, mod) == [a]
    assert free_type_vars(identity, mod) == []


def test_all_dtypes_descends_into_function_and_reference_types() -> None:
    func = var("f", FuncType([TensorType((), "int8")], TensorType((), "float16")))
    cell = var("c", RefType(TensorType((), "uint8")))
    assert all_dtypes(func) == {"int8", "float16"}
    assert all_dtypes(cell) == {"uint8"}
