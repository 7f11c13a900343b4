"""`partition`: matches are moved into functions."""

import pytest

from apass.relay.dataflow_pattern import (
    FunctionPattern,
    dominates,
    has_dtype,
    has_type,
    is_constant,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    partition,
    wildcard,
)
from apass.relay.expr import Call, Expr, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.op.define.registry import OpPattern
from apass.relay.op.elementwise.arithmetic import add, subtract
from apass.relay.op.elementwise.trigonometry import tanh
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.conv.conv import conv2d
from apass.relay.op.shape.join import concatenate
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.ty import TensorType
from tests.helpers.amounts import levels

X, Y, Z, W, B = var("x"), var("y"), var("z"), var("w"), var("b")
RELU, CONV = is_op("nn.relu"), is_op("nn.conv2d")


def function(name: str, params: list[Var], body: Expr, **attrs: object) -> Function:
    """Return a function like those that `partition` creates."""
    return Function(params, body, attrs={"PartitionedFromPattern": name, **attrs})


def parameters(count: int) -> list[Var]:
    """Return variables named `p0`, `p1` and so on."""
    return [Var(f"p{index}") for index in range(count)]


def test_match_becomes_call_of_function() -> None:
    result = (wildcard() + wildcard()).partition(add(X, Y))
    p, q = parameters(2)
    assert_structural_equal(result, Call(function("add_", [p, q], add(p, q)), [X, Y]))


def functions_in(expr: Expr) -> list[Function]:
    """Return the functions that the children of an expression call."""
    return [call.op for call in expr.children if isinstance(call, Call) and isinstance(call.op, Function)]


def test_parameters_are_numbered_by_match_and_index() -> None:
    result = RELU(wildcard() + wildcard()).partition(Tuple([relu(add(X, Y)), relu(add(Y, Z))]))
    names = [[param.name_hint for param in func.params] for func in functions_in(result)]
    assert names == [["FunctionVar_1_0", "FunctionVar_1_1"], ["FunctionVar_0_0", "FunctionVar_0_1"]]


def test_function_is_named_after_its_nodes() -> None:
    tup = Tuple([relu(X), If(X, Y, Z)])
    let = Let(Var("v"), Call(Function([Z], Z), [TupleGetItem(tup, 1)]), Y)
    pattern = is_let(
        wildcard(),
        wildcard()(is_tuple_get_item(is_tuple([RELU(None), is_if(wildcard(), wildcard(), wildcard())]), 1)),
        wildcard(),
    )
    result = pattern.partition(let)
    assert isinstance(result, Call)
    assert isinstance(result.op, Function)
    assert result.op.attrs["PartitionedFromPattern"] == "Functionnn.relu_If_Tuple_TupleGetItem1_Call_Let_"


def test_partition_adds_attributes() -> None:
    result = (wildcard() + wildcard()).partition(add(X, Y), {"Composite": "plus"})
    p, q = parameters(2)
    assert_structural_equal(result, Call(function("add_", [p, q], add(p, q), Composite="plus"), [X, Y]))


def test_check_accepts_or_rejects_each_match() -> None:
    left, right = add(X, Y), add(Y, Z)
    result = (wildcard() + wildcard()).partition(Tuple([left, right]), check=lambda pre: pre is right)
    p, q = parameters(2)
    assert_structural_equal(result, Tuple([left, Call(function("add_", [p, q], add(p, q)), [Y, Z])]))


def test_inner_match_becomes_argument_of_outer() -> None:
    result = partition(wildcard() + wildcard(), add(add(X, Y), Z))
    p, q, r, s = parameters(4)
    inner = Call(function("add_", [p, q], add(p, q)), [X, Y])
    assert_structural_equal(result, Call(function("add_", [r, s], add(r, s)), [inner, Z]))


def test_function_can_be_partitioned() -> None:
    result = RELU(wildcard()).partition(Function([X], tanh(relu(X))))
    (p,) = parameters(1)
    assert_structural_equal(result, Function([X], tanh(Call(function("nn.relu_", [p], relu(p)), [X]))))


def test_partitioned_function_is_not_partitioned_again() -> None:
    once = (wildcard() + wildcard()).partition(add(X, Y))
    assert (wildcard() + wildcard()).partition(once) is once
    assert (is_var() + is_var()).partition(Tuple([once, relu(X)])).children[0] is once


def test_constants_of_pattern_are_embedded() -> None:
    p, q = parameters(2)
    total = add(X, const(1.0))
    embedded = (wildcard() + is_constant()).partition(total)
    assert_structural_equal(embedded, Call(function("add_", [p], add(p, const(1.0))), [X]))
    passed = (wildcard() + wildcard()).partition(total)
    assert_structural_equal(passed, Call(function("add_", [p, q], add(p, q)), [X, const(1.0)]))


def test_input_matched_twice_is_passed_twice() -> None:
    result = (wildcard() + wildcard()).partition(add(X, X))
    p, q = parameters(2)
    assert_structural_equal(result, Call(function("add_", [p, q], add(q, q)), [X, X]))


def test_diamond_becomes_one_function() -> None:
    conv = CONV(is_var(), is_var())
    diamond = RELU(conv) + is_op("tanh")(conv)
    shared = conv2d(X, W)
    result = diamond.partition(add(relu(shared), tanh(shared)))
    p, q = parameters(2)
    inner = conv2d(p, q)
    expected = function("nn.conv2d_nn.relu_tanh_add_", [p, q], add(relu(inner), tanh(inner)))
    assert_structural_equal(result, Call(expected, [X, W]))


def test_nodes_between_parent_and_child_become_one_function() -> None:
    path = wildcard().has_attr({"TOpPattern": OpPattern.ELEMWISE})(None)
    pattern = dominates(CONV(is_var(), is_var()), path, RELU(wildcard()))
    result = pattern.partition(tanh(relu(tanh(relu(conv2d(X, W))))))
    p, q = parameters(2)
    expected = function("nn.conv2d_nn.relu_tanh_nn.relu_", [p, q], relu(tanh(relu(conv2d(p, q)))))
    assert_structural_equal(result, tanh(Call(expected, [X, W])))


def test_match_with_used_inner_nodes_is_left() -> None:
    shared = conv2d(X, W)
    expr = Tuple([relu(shared), shared])
    assert RELU(CONV(wildcard(), wildcard())).partition(expr) is expr


def test_overlapping_matches_are_not_both_taken() -> None:
    result = RELU(RELU(wildcard())).partition(relu(relu(relu(X))))
    (p,) = parameters(1)
    assert_structural_equal(result, Call(function("nn.relu_nn.relu_", [p], relu(relu(p))), [relu(X)]))


def test_called_function_is_part_of_match() -> None:
    inner = Function([Z], relu(Z))
    pattern = FunctionPattern([wildcard()], RELU(wildcard()))(wildcard()) - wildcard()
    result = pattern.partition(subtract(Call(inner, [X]), Y))
    p, q = parameters(2)
    expected = function("nn.relu_FunctionCall_subtract_", [p, q], subtract(Call(inner, [p]), q))
    assert_structural_equal(result, Call(expected, [X, Y]))


def test_fields_of_any_tuple_are_inputs() -> None:
    result = is_op("concatenate")(is_tuple(None)).partition(concatenate([X, Y, Z], 0))
    p, q, r = parameters(3)
    expected = function("Tuple_concatenate_", [p, q, r], concatenate([p, q, r], 0))
    assert_structural_equal(result, Call(expected, [X, Y, Z]))


def test_type_patterns_select_matches_in_function() -> None:
    x, y = var("x", shape=(2, 3)), var("y", shape=(3,))
    func = Function([x, y], Tuple([add(x, y), add(y, y)]))
    for pattern in ((wildcard() + wildcard()).has_shape((3,)), has_type(TensorType((3,)), wildcard() + wildcard())):
        result = pattern.partition(func)
        assert isinstance(result, Function)
        left, right = result.body.children
        assert_structural_equal(left, add(x, y))
        assert isinstance(right.children[0], Function)
    assert (wildcard() + wildcard()).has_dtype("int32").partition(func) is func
    assert has_dtype("float32").partition(func) is func


def test_single_node_pattern_creates_no_function() -> None:
    expr = add(X, Y)
    assert wildcard().partition(expr) is expr
    assert is_var().partition(expr) is expr


def test_function_pattern_is_ignored_with_warning() -> None:
    func = Function([X], relu(X))
    pattern = FunctionPattern(None, wildcard())
    with pytest.warns(UserWarning, match="a function matched by a FunctionPattern has no caller"):
        assert partition(pattern, func) is func


def test_deep_expression_is_partitioned() -> None:
    deep: Expr = X
    for _ in range(levels(20_000)):
        deep = tanh(relu(deep))
    result = is_op("tanh")(RELU(wildcard())).partition(deep)
    count = 0
    while result is not X:
        assert isinstance(result, Call)
        assert isinstance(result.op, Function)
        result, count = result.args[0], count + 1
    assert count == levels(20_000)
