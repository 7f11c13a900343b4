"""FoldConstant: the calls it computes, those it leaves, and its two visitors."""

from collections.abc import Iterator

import numpy as np
import pytest

import apass
from apass.core.diagnostics import Span
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import OPS, Call, Constant, Expr, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.op.annotation import device_copy, on_device
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import identity_relation
from apass.relay.op.elementwise.arithmetic import add, divide, multiply
from apass.relay.op.elementwise.math import negative
from apass.relay.op.nn.dropout import dropout_raw
from apass.relay.op.shape.join import concatenate, split
from apass.relay.op.shape.shape_of import ndarray_size, shape_of
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.fold_constant import ConstantChecker, FoldConstant, FoldConstantExpr, fold_constant
from apass.relay.ty import Any
from apass.relay.type_inference.infer import infer_module
from tests.helpers.relay.evaluation import plain
from tests.helpers.relay.meaning import typed

X = var("x", shape=(2,))
ONE, TWO = const(1.0), const(2.0)


@pytest.fixture
def stateful() -> Iterator[Op]:
    """Register an operator that counts its calls; fail if it is called."""
    calls: list[int] = []

    def compute(data: Array) -> Array:
        calls.append(1)
        return np.array(len(calls), "int32")

    yield register_op("test.count", arguments=("data",), relation=identity_relation, compute=compute, stateful=True)
    assert OPS.pop("test.count")
    assert calls == []


def test_fold_constant_has_level_two_and_no_requirements() -> None:
    assert FoldConstant().info == apass.PassInfo(2, "FoldConstant", ())


def test_call_on_constants_becomes_constant() -> None:
    folded = fold_constant(multiply(X, add(ONE, negative(TWO))))
    assert structural_equal(folded, multiply(X, const(-1.0)))


def test_folded_constant_keeps_span_of_call() -> None:
    span = Span("main.relay", 1, 1, 2, 5)
    assert fold_constant(Call(Op.get("add"), [ONE, ONE], span=span)).span is span


def test_tuples_of_constants_are_folded() -> None:
    pair = Tuple([const([1.0]), const([2.0])])
    assert structural_equal(fold_constant(concatenate(pair, 0)), const([1.0, 2.0]))
    halves = fold_constant(split(const([1.0, 2.0]), 2, 0).astuple())
    assert structural_equal(halves, pair)


def test_only_binding_of_constant_is_dropped() -> None:
    a, b = var("a"), var("b")
    folded = fold_constant(Let(a, add(ONE, ONE), Let(b, add(X, a), add(b, a))))
    assert structural_equal(folded, Let(b, add(X, TWO), add(b, TWO)), map_free_vars=True)


def test_if_on_constant_becomes_its_branch() -> None:
    assert fold_constant(If(const(True), X, negative(X))) is X
    assert structural_equal(fold_constant(If(const(False), X, add(ONE, ONE))), TWO)


def test_field_of_tuple_expression_is_folded() -> None:
    assert fold_constant(TupleGetItem(Tuple([X, negative(X)]), 0)) is X


@pytest.mark.parametrize("index", [1, -1])
def test_field_out_of_range_is_left(index: int) -> None:
    field = TupleGetItem(Tuple([X]), index)
    assert fold_constant(field) is field


def test_field_is_left_when_another_field_writes() -> None:
    cell = var("cell")
    field = TupleGetItem(Tuple([X, RefWrite(cell, X)]), 0)
    assert fold_constant(field) is field
    assert fold_constant(TupleGetItem(Tuple([X, RefRead(cell)]), 0)) is X


def test_shared_call_is_folded_once_and_stays_shared() -> None:
    shared = add(ONE, ONE)
    folded = fold_constant(Tuple([shared, add(X, shared)]))
    assert isinstance(folded, Tuple)
    assert folded.fields[0] is folded.fields[1].children[2]


def test_operator_on_shape_is_computed_from_type() -> None:
    x = var("x", shape=(2, 3))
    assert structural_equal(fold_constant(shape_of(x, "int64")), const([2, 3], "int64"))
    assert structural_equal(fold_constant(ndarray_size(x)), const(6, "int32"))
    assert structural_equal(fold_constant(shape_of(var("s", shape=()))), const(np.zeros(0, "int32")))


@pytest.mark.parametrize("argument", [var("x"), var("x", shape=(2, Any())), negative(X)])
def test_operator_on_unknown_shape_is_left(argument: Expr) -> None:
    call = shape_of(argument)
    assert fold_constant(call) is call


def test_fold_constant_infers_types_for_shapes() -> None:
    y = var("y", shape=(2, 3))
    mod = IRModule.from_expr(Function([y], shape_of(negative(y), "int64")))
    assert structural_equal(
        apass.run(FoldConstant(), mod)["main"], typed(Function([y], const([2, 3], "int64")))["main"]
    )
    ill_typed = IRModule.from_expr(Function([X, y], shape_of(add(X, y))))
    with pytest.raises(TypeInferenceError, match="cannot be broadcast"):
        apass.run(FoldConstant(), ill_typed)
    unknown = typed(shape_of(negative(var("z", shape=(Any(),)))))
    assert apass.run(FoldConstant(), unknown) is unknown


def test_stateful_operator_and_device_copy_are_left(stateful: Op) -> None:
    for call in (Call(stateful, [ONE]), device_copy(ONE, "cpu", "cuda"), dropout_raw(ONE)):
        assert fold_constant(call) is call


def test_call_without_arguments_is_left() -> None:
    call = Call(Op.get("ones"), [], Op.get("ones").make_attrs(shape=(4, 5), dtype="float32"))
    assert fold_constant(call) is call


def test_call_with_failing_kernel_is_left() -> None:
    func = Function([], add(const([1.0, 2.0]), const([1.0, 2.0, 3.0])))
    assert fold_constant(func) is func


def test_folding_suppresses_numpy_warnings() -> None:
    folded = fold_constant(divide(ONE, const(0.0)))
    assert isinstance(folded, Constant)
    assert folded.data.item() == np.inf


def test_primitive_functions_and_their_calls_are_left() -> None:
    func = Function([X], add(X, add(ONE, ONE)), attrs={"Primitive": 1})
    call = Call(func, [const([1.0, 2.0])])
    assert fold_constant(call) is call
    other = Function([X], func.body)
    assert op_name(fold_constant(other).children[1].children[2]) == ""


def test_call_of_function_is_left() -> None:
    call = Call(Function([X], negative(X)), [const([1.0, 2.0])])
    assert fold_constant(call) is call


def test_large_results_are_folded_without_copy() -> None:
    folded = fold_constant(negative(const(np.ones(1 << 20, "float32"))))
    assert isinstance(folded, Constant)
    assert (folded.data.size, folded.data.flags.writeable) == (1 << 20, False)


def test_function_with_skip_optimization_is_left() -> None:
    mod = infer_module(IRModule.from_expr(Function([], add(ONE, ONE), attrs={"SkipOptimization": 1})))
    assert apass.run(FoldConstant(), mod) is mod


def test_folded_program_computes_same_result() -> None:
    func = Function([X], add(multiply(X, add(ONE, TWO)), negative(TWO)))
    folded = FoldConstantExpr(func, IRModule())
    assert plain(evaluate(folded, [1.0, 2.0])) == plain(evaluate(func, [1.0, 2.0])) == [1, 4]


@pytest.mark.parametrize(
    ("expr", "is_constant"),
    [
        (ONE, True),
        (Tuple([]), True),
        (Tuple([ONE, Tuple([TWO])]), True),
        (Tuple([ONE, X]), False),
        (Tuple([ONE, Tuple([X])]), False),
        (X, False),
        (add(ONE, ONE), False),
        (Function([], ONE), False),
        (Let(X, ONE, ONE), False),
    ],
)
def test_constant_checker_accepts_constants_and_their_tuples(expr: Expr, is_constant: bool) -> None:
    checker = ConstantChecker()
    assert [checker.check(expr), checker.check(expr)] == [is_constant, is_constant]


def on_cpu(expr: Expr) -> Expr:
    return on_device(expr, "cpu", is_fixed=True)


def test_device_annotations_stay_around_folded_results() -> None:
    c, a = on_cpu(const([1.0, 2.0])), var("a")
    program = Let(a, on_cpu(add(c, c)), on_cpu(add(on_cpu(add(X, a)), c)))
    expected = on_cpu(add(on_cpu(add(X, on_cpu(const([2.0, 4.0])))), on_cpu(const([1.0, 2.0]))))
    assert structural_equal(Function([X], fold_constant(program)), Function([X], expected))


def test_field_of_device_annotated_tuple_is_annotated() -> None:
    field = TupleGetItem(on_cpu(Tuple([X, on_cpu(ONE)])), 0)
    assert structural_equal(Function([X], fold_constant(field)), Function([X], on_cpu(X)))
    assert structural_equal(fold_constant(TupleGetItem(field.tuple_value, 1)), on_cpu(ONE))
    assert structural_equal(Function([X], fold_constant(If(on_cpu(const(True)), X, ONE))), Function([X], X))


def test_shape_of_expression_that_writes_is_left() -> None:
    cell = var("cell")
    writes = Let(var("done"), RefWrite(cell, TWO), X)
    func = typed(Function([X], Let(cell, RefCreate(ONE), Tuple([shape_of(writes), RefRead(cell)]))))["main"]
    assert fold_constant(func) is func
