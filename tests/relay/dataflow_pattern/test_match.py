"""Which patterns match which expressions."""

from collections.abc import Callable

import pytest

from apass.errors import ApassError
from apass.relay.dataflow_pattern import (
    CallPattern,
    DFPattern,
    ExprPattern,
    FunctionPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    wildcard,
)
from apass.relay.expr import Call, Expr, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.op.define.registry import OpPattern
from apass.relay.op.elementwise.arithmetic import add, divide, multiply, subtract
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.conv.conv import conv2d
from apass.relay.op.nn.dense.bias import bias_add
from apass.relay.ty import TensorType
from tests.helpers.amounts import levels

ADD, SUBTRACT, MULTIPLY, DIVIDE = (is_op(name) for name in ("add", "subtract", "multiply", "divide"))
RELU, CONV, BIAS = is_op("nn.relu"), is_op("nn.conv2d"), is_op("nn.bias_add")
X, Y, Z, W = var("x"), var("y"), var("z"), var("w")
Binary = Callable[[Expr, Expr], Expr]


def test_wildcard_matches_every_expression() -> None:
    assert all(wildcard().match(expr) for expr in (X, const(1), Op.get("add"), add(X, Y), Tuple([]), Function([X], X)))


def test_variable_pattern_matches_by_name() -> None:
    assert [is_var().match(X), is_var("x").match(X), is_var("y").match(X), is_var().match(const(1))] == [
        True,
        True,
        False,
        False,
    ]


def test_constant_and_operator_patterns_match() -> None:
    assert is_constant().match(const(1))
    assert not is_constant().match(X)
    assert ADD.match(Op.get("add"))
    assert not ADD.match(Op.get("subtract"))
    assert not ADD.match(X)


def test_unknown_operator_error_suggests_name() -> None:
    with pytest.raises(ApassError, match=r"'nn\.conv2'.*nn\.conv2d"):
        is_op("nn.conv2")


def test_expression_pattern_matches_equal_expressions() -> None:
    assert is_expr(add(X, const(1))).match(add(X, const(1)))
    assert not is_expr(add(X, const(1))).match(add(X, const(2)))
    assert not is_expr(add(X, const(1))).match(add(Y, const(1)))


def test_call_pattern_matches_operator_and_arguments() -> None:
    assert SUBTRACT(is_var("x"), is_var("y")).match(subtract(X, Y))
    assert not SUBTRACT(is_var("x"), is_var("y")).match(subtract(Y, X))
    assert not SUBTRACT(is_var("x")).match(subtract(X, Y))
    assert not SUBTRACT(wildcard(), wildcard()).match(X)
    assert wildcard()(wildcard(), wildcard()).match(subtract(X, Y))
    assert is_var("f")(wildcard()).match(Call(Var("f"), [X]))


def test_call_pattern_of_none_matches_any_arguments() -> None:
    assert SUBTRACT(None).match(subtract(X, Y))
    assert is_var("f")(None).match(Call(Var("f"), [X, Y, Z]))
    assert CallPattern(ADD, None).match(add(X, Y))


def test_argument_that_is_no_pattern_raises_error() -> None:
    with pytest.raises(TypeError, match=r"must be patterns, got <relay\.Var %x>; wrap an expression in is_expr"):
        map_call(SUBTRACT, [X])


def map_call(call: Callable[..., object], args: list[Expr]) -> object:
    """Call a function without type checks, as untyped code does."""
    return call(*args)


@pytest.mark.parametrize("make", [add, multiply])
def test_operands_of_commutative_operators_match_in_either_order(make: Binary) -> None:
    name = "add" if make is add else "multiply"
    pattern = is_op(name)(is_var("x"), is_var("y"))
    assert pattern.match(make(X, Y))
    assert pattern.match(make(Y, X))
    assert not pattern.match(make(X, X))


def test_pattern_operators_build_call_patterns() -> None:
    a, b = is_var("x"), is_var("y")
    assert (a + b).match(add(Y, X))
    assert (a - b).match(subtract(X, Y))
    assert (a * b).match(multiply(X, Y))
    assert (a / b).match(divide(X, Y))
    assert not (a / b).match(divide(Y, X))


def test_products_and_quotients_match_when_reassociated() -> None:
    x, y, w = is_var("x"), is_var("y"), is_var("w")
    assert (x * y / w).match(divide(multiply(X, Y), W))
    assert (x * y / w).match(multiply(X, divide(Y, W)))
    assert (x * y / w).match(multiply(divide(X, W), Y))
    assert not (x * y / w).match(multiply(X, divide(W, Y)))
    assert not (x * y / w).match(multiply(X, Y))
    assert (x / y * w).match(divide(multiply(X, W), Y))
    assert (w * (x / y)).match(divide(multiply(X, W), Y))
    assert not (x / y * w).match(divide(multiply(X, Y), W))
    assert not (DIVIDE(x)).match(multiply(X, divide(Y, W)))


def test_alternatives_are_tried_from_left_to_right() -> None:
    either = ADD(wildcard(), wildcard()) | SUBTRACT(wildcard(), wildcard())
    calls = (add(X, Y), subtract(X, Y), multiply(X, Y))
    assert [either.match(call) for call in calls] == [True, True, False]


def test_matches_of_failed_alternative_are_undone() -> None:
    shared = wildcard()
    pattern = SUBTRACT(SUBTRACT(shared, is_constant()) | SUBTRACT(is_var("y"), shared), wildcard())
    assert pattern.match(subtract(subtract(Y, X), X))


def test_repeated_pattern_matches_one_node() -> None:
    same = wildcard()
    assert (same * same).match(multiply(X, X))
    assert not (same * same).match(multiply(X, Y))
    shared = relu(X)
    assert SUBTRACT(RELU(same), same).match(subtract(shared, X))
    assert not SUBTRACT(RELU(same), same).match(subtract(shared, Y))


def test_pattern_matches_diamond() -> None:
    pattern_conv = CONV(wildcard(), wildcard())
    diamond = ADD(RELU(pattern_conv), is_op("tanh")(pattern_conv))
    conv = conv2d(X, W)
    tanh = Op.get("tanh")
    assert diamond.match(add(relu(conv), Call(tanh, [conv])))
    assert diamond.match(add(Call(tanh, [conv]), relu(conv)))
    assert not diamond.match(add(relu(conv), Call(tanh, [conv2d(X, W)])))


def test_optional_pattern_matches_with_and_without_user() -> None:
    pattern = BIAS(CONV(wildcard(), wildcard()), wildcard()).optional(RELU)
    biased = bias_add(conv2d(X, W), Y)
    assert [pattern.match(expr) for expr in (biased, relu(biased), relu(conv2d(X, W)))] == [True, True, False]


def test_tuple_pattern_matches_fields() -> None:
    pair = Tuple([X, Y])
    assert is_tuple([is_var("x"), wildcard()]).match(pair)
    assert not is_tuple([wildcard()]).match(pair)
    assert is_tuple(None).match(pair)
    assert is_tuple([]).match(Tuple([]))
    assert not is_tuple(None).match(X)


def test_tuple_field_pattern_matches_index() -> None:
    field = TupleGetItem(Tuple([X, Y]), 1)
    tup = is_tuple(None)
    assert [is_tuple_get_item(tup, index).match(field) for index in (None, 0, 1)] == [True, False, True]
    assert not is_tuple_get_item(is_var(), 1).match(field)


def test_if_and_let_patterns_match_parts() -> None:
    assert is_if(is_var("x"), is_var("y"), is_var("z")).match(If(X, Y, Z))
    assert not is_if(is_var("x"), is_var("z"), is_var("y")).match(If(X, Y, Z))
    assert is_let(is_var("x"), is_constant(), is_var("x")).match(Let(X, const(1), X))
    assert not is_let(is_var("x"), is_constant(), is_constant()).match(Let(X, const(1), X))


def test_function_pattern_matches_parameters_and_body() -> None:
    x, y = is_var(), is_var()
    func = Function([X, Y], subtract(X, Y))
    assert FunctionPattern([x, y], SUBTRACT(x, y)).match(func)
    assert not FunctionPattern([x, y], SUBTRACT(y, x)).match(func)
    assert not FunctionPattern([x], wildcard()).match(func)
    assert FunctionPattern(None, wildcard()).match(func)


def test_attribute_pattern_matches_call() -> None:
    conv = conv2d(X, W, kernel_size=(3, 3), data_layout="NCHW")
    call = CONV(wildcard(), wildcard())
    assert call.has_attr({"kernel_size": [3, 3]}).match(conv)
    assert call.has_attr({"kernel_size": (3, 3), "data_layout": "NCHW", "groups": 1}).match(conv)
    assert not call.has_attr({"data_layout": "NHWC"}).match(conv)
    assert not call.has_attr({"data_layout": "NCHW", "groups": 2}).match(conv)
    assert not call.has_attr({"no_such": 1}).match(conv)
    assert not wildcard()(None).has_attr({"groups": 1}).match(Call(Var("f"), [X]))


def test_attribute_pattern_matches_operator() -> None:
    elementwise = has_attr({"TOpPattern": OpPattern.ELEMWISE})
    assert elementwise.match(Op.get("nn.relu"))
    assert elementwise(wildcard()).match(relu(X))
    assert has_attr({"TOpPattern": 0}).match(Op.get("nn.relu"))
    assert not elementwise.match(Op.get("nn.conv2d"))
    assert not has_attr({"TNoSuch": 0}).match(Op.get("nn.relu"))


def test_attribute_pattern_matches_function() -> None:
    func = Function([X], X).with_attr("Composite", "add")
    assert wildcard().has_attr({"Composite": "add"}).match(func)
    assert not wildcard().has_attr({"Composite": "sub"}).match(func)
    assert not has_attr({"Composite": "add"}).match(X)


def test_type_pattern_matches_with_and_without_inference() -> None:
    x = var("x", shape=(10, 10))
    total = add(x, const(1.0))
    assert has_type(TensorType((10, 10))).match(total)
    assert not has_type(TensorType((10, 1))).match(total)
    assert wildcard().has_type(TensorType((10, 10))).match(x)
    assert has_dtype("float32").match(total)
    assert not has_dtype("float32", is_constant()).match(total)
    assert wildcard().has_dtype("int32").match(const(1))
    assert has_shape((10, 10)).match(total)
    assert not wildcard().has_shape([10, 1]).match(total)
    assert not has_shape((10, 10)).match(Tuple([x]))


def test_dominator_pattern_matches_elementwise_path() -> None:
    path = wildcard().has_attr({"TOpPattern": OpPattern.ELEMWISE})(None)
    pattern = dominates(CONV(is_var(), is_var()), path, RELU(wildcard()))
    conv = conv2d(X, W)
    assert pattern.match(relu(conv))
    assert pattern.match(relu(relu(relu(conv))))
    assert not pattern.match(relu(relu(X)))
    assert not pattern.match(relu(bias_add(conv, Y)))
    assert not pattern.match(conv)


def elementwise(*more: str) -> DFPattern:
    """Return a pattern of calls of elementwise operators, and of some more."""
    pattern: DFPattern = wildcard().has_attr({"TOpPattern": OpPattern.ELEMWISE})(None)
    for name in more:
        pattern = pattern | is_op(name)(None)
    return pattern


def test_dominator_requires_all_paths_to_parent() -> None:
    parent = CONV(is_var(), is_var())
    pattern = ADD(wildcard(), wildcard()).dominates(parent, elementwise("add"))
    conv = conv2d(X, W)
    assert pattern.match(add(relu(conv), relu(relu(conv))))
    assert pattern.match(add(relu(add(relu(conv), conv)), relu(conv)))
    assert not pattern.match(add(relu(conv), relu(Y)))
    assert not pattern.match(add(relu(conv), relu(conv2d(X, W))))


def test_parent_with_other_users_is_not_dominated() -> None:
    pattern = RELU(wildcard()).dominates(CONV(is_var(), is_var()))
    conv = conv2d(X, W)
    child = relu(relu(conv))
    assert pattern.match(child)
    whole = Tuple([child, conv])
    assert not is_tuple([pattern, wildcard()]).match(whole)


def test_dominator_pattern_matches_deep_graph() -> None:
    deep: Expr = conv2d(X, W)
    for _ in range(levels(100_000)):
        deep = relu(deep)
    path = RELU(wildcard()).dominates(CONV(is_var(), is_var()), RELU(wildcard()))
    assert path.match(deep)
    assert RELU(RELU(wildcard())).match(deep)


def test_branching_paths_are_followed_once() -> None:
    node: Expr = conv2d(X, W)
    for _ in range(2_000):
        node = add(relu(node), node)
    pattern = ADD(wildcard(), wildcard()).dominates(CONV(is_var(), is_var()), elementwise("add"))
    assert pattern.match(node)


def test_match_function_matches_pattern() -> None:
    assert match(ExprPattern(X) + wildcard(), add(X, Y))


def in_calls(inner: DFPattern, expr: Expr) -> tuple[DFPattern, Expr]:
    return RELU(inner), relu(expr)


def in_tuples(inner: DFPattern, expr: Expr) -> tuple[DFPattern, Expr]:
    return is_tuple_get_item(is_tuple([inner]), 0), TupleGetItem(Tuple([expr]), 0)


def in_sums(inner: DFPattern, expr: Expr) -> tuple[DFPattern, Expr]:
    return wildcard() + inner, add(expr, Y)


def in_functions(inner: DFPattern, expr: Expr) -> tuple[DFPattern, Expr]:
    return FunctionPattern([], is_if(wildcard(), inner, wildcard())), Function([], If(X, expr, Y))


def in_conditions(inner: DFPattern, expr: Expr) -> tuple[DFPattern, Expr]:
    return has_attr({"TOpPattern": OpPattern.OPAQUE}) | inner.has_attr({}) | RELU(wildcard()), expr


@pytest.mark.parametrize("wrap", [in_calls, in_tuples, in_sums, in_functions, in_conditions])
def test_deeply_nested_pattern_matches(
    wrap: Callable[[DFPattern, Expr], tuple[DFPattern, Expr]],
) -> None:
    pattern: DFPattern = is_var("x")
    expr: Expr = X
    for _ in range(2_000):
        pattern, expr = wrap(pattern, expr)
    assert pattern.match(expr)
    assert not pattern.match(Y)
