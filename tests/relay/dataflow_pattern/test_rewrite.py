"""`rewrite`: callbacks replace the matches of patterns."""

import pytest
from hypothesis import HealthCheck, given, settings

from apass.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    RewriteLimitError,
    dominates,
    is_constant,
    is_expr,
    is_op,
    is_var,
    rewrite,
    wildcard,
)
from apass.relay.dataflow_pattern.matcher import NodeMap
from apass.relay.expr import Call, Constant, Expr, Let, Op, Tuple, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.define.registry import OpPattern
from apass.relay.op.elementwise.arithmetic import add, divide, multiply, subtract
from apass.relay.op.elementwise.math import sqrt
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.conv.conv import conv2d
from apass.relay.op.nn.norm.batch_norm import batch_norm
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_expr
from tests.helpers.amounts import amount, levels

X, Y, Z, W = var("x"), var("y"), var("z"), var("w")


class AddToSub(DFPatternCallback):
    """Replaces `x + y` by `x - y`."""

    def __init__(self, *, require_type: bool = False, rewrite_once: bool = False) -> None:
        super().__init__(require_type, rewrite_once)
        self.x = wildcard()
        self.y = wildcard()
        self.pattern = self.x + self.y
        self.calls = 0

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        self.calls += 1
        return subtract(node_map[self.x][0], node_map[self.y][0])


class DropRelu(DFPatternCallback):
    """Replaces `relu(x)` by `x`."""

    def __init__(self) -> None:
        super().__init__()
        self.x = wildcard()
        self.pattern = is_op("nn.relu")(self.x)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        return node_map[self.x][0]


class Same(DFPatternCallback):
    """Changes nothing, and records its arguments."""

    def __init__(self, pattern: DFPattern, require_type: bool = False) -> None:
        super().__init__(require_type)
        self.pattern = pattern
        self.calls: list[tuple[Expr, Expr, NodeMap]] = []

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        self.calls.append((pre, post, node_map))
        return post


def test_match_is_replaced() -> None:
    assert_structural_equal(rewrite(AddToSub(), add(X, Y)), subtract(X, Y))


def test_nested_matches_are_replaced() -> None:
    result = AddToSub().rewrite(add(add(X, Y), multiply(Z, add(X, W))))
    assert_structural_equal(result, subtract(subtract(X, Y), multiply(Z, subtract(X, W))))


def test_matches_within_functions_and_lets_are_replaced() -> None:
    v = Var("v")
    result = AddToSub().rewrite(Function([X], Let(v, add(X, X), add(v, X))))
    assert_structural_equal(result, Function([X], Let(v, subtract(X, X), subtract(v, X))))


def test_expression_without_match_is_same_object() -> None:
    expr = multiply(X, Y)
    assert AddToSub().rewrite(expr) is expr


def test_callback_receives_both_nodes_and_node_map() -> None:
    inner = relu(X)
    outer = sqrt(add(inner, Y))
    x, y = wildcard(), is_var("y")
    total = x + y
    same = Same(is_op("sqrt")(total))
    rewrite([DropRelu(), same], outer)
    pre, post, node_map = same.calls[0]
    assert pre is post
    assert node_map[x] == [X]
    assert node_map[y] == [Y]
    assert node_map[total] == [pre.children[1]]
    assert node_map[same.pattern or x] == [pre]


def test_post_node_has_rewritten_operands() -> None:
    seen: list[tuple[Expr, Expr]] = []

    class Watch(AddToSub):
        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            seen.append((pre, post))
            return super().callback(pre, post, node_map)

    inner = add(X, Y)
    outer = add(inner, Z)
    Watch().rewrite(outer)
    assert [pre for pre, _ in seen] == [inner, outer]
    assert_structural_equal(seen[1][1], add(subtract(X, Y), Z))


def test_rewriting_repeats_until_nothing_changes() -> None:
    class TwoToThree(DFPatternCallback):
        """Increments a constant up to 10."""

        def __init__(self, *, rewrite_once: bool = False) -> None:
            super().__init__(rewrite_once=rewrite_once)
            self.pattern = is_constant()

        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            assert isinstance(pre, Constant)
            return const(min(int(pre.data) + 1, 10))

    assert_structural_equal(TwoToThree().rewrite(relu(const(1))), relu(const(10)))
    assert_structural_equal(TwoToThree(rewrite_once=True).rewrite(relu(const(1))), relu(const(2)))


def test_callbacks_that_never_converge_raise_error() -> None:
    class SubToAdd(AddToSub):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = self.x - self.y

        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            return add(node_map[self.x][0], node_map[self.y][0])

    class Grow(AddToSub):
        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            return relu(post)

    assert rewrite([AddToSub(), SubToAdd()], add(X, Y)) is not None
    with pytest.raises(RewriteLimitError, match=r"still changes after 100 rewrites, by one of Grow"):
        Grow().rewrite(add(X, Y))


def test_several_callbacks_are_applied_in_order() -> None:
    assert_structural_equal(rewrite([AddToSub(), DropRelu()], relu(add(X, relu(Y)))), subtract(X, Y))


def test_overlapping_match_nearer_to_root_is_taken() -> None:
    pattern = is_op("nn.relu")(is_op("nn.relu")(wildcard()))
    same = Same(pattern)
    bottom = relu(X)
    middle = relu(bottom)
    top = relu(middle)
    same.rewrite(top)
    assert [pre for pre, _, _ in same.calls] == [top]


def test_match_with_used_inner_nodes_is_left() -> None:
    pattern = is_op("nn.relu")(wildcard() + wildcard())
    shared = add(X, Y)
    same = Same(pattern)
    same.rewrite(Tuple([relu(shared), shared]))
    assert same.calls == []
    same.rewrite(Tuple([relu(shared), X]))
    assert len(same.calls) == 1


def test_shared_match_is_replaced_once() -> None:
    shared = add(X, Y)
    callback = AddToSub()
    result = callback.rewrite(Tuple([shared, shared]))
    assert callback.calls == 1
    assert result.children[0] is result.children[1]


def test_callback_that_requires_types_receives_them() -> None:
    x = var("x", shape=(2, 3))
    same = Same(wildcard() + wildcard(), require_type=True)
    same.rewrite(relu(add(x, const(1.0))))
    assert [pre.checked_type for pre, _, _ in same.calls] == [TensorType((2, 3))]


class ReadsType(Same):
    """Reads the type of each match."""

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        return post if pre.checked_type else pre


def test_error_of_missing_type_names_require_type() -> None:
    func = infer_expr(Function([x := var("x", shape=(2,))], relu(add(x, x))))
    reader = ReadsType(is_op("nn.relu")(wildcard()))
    with pytest.raises(ValueError, match=r"type of <relay.Call .* create a DFPatternCallback with require_type=True"):
        rewrite([AddToSub(), reader], func)
    with pytest.raises(ValueError, match=r"type of <relay.Var %x> .* require_type=True"):
        ReadsType(is_var()).rewrite(X)
    reader.require_type = True
    assert_structural_equal(rewrite([AddToSub(), reader], func), infer_expr(Function([x], relu(subtract(x, x)))))


def test_module_provides_types_of_called_functions() -> None:
    x = var("x", shape=(2, 3))
    mod = IRModule()
    mod["double"] = infer_expr(Function([x], add(x, x)))
    y = var("y", shape=(2, 3))
    same = Same(wildcard() + wildcard(), require_type=True)
    rewrite(same, add(Call(mod.get_global_var("double"), [y]), y), mod)
    assert [pre.checked_type for pre, _, _ in same.calls] == [TensorType((2, 3))]


def test_callback_without_pattern_or_result_raises_error() -> None:
    with pytest.raises(TypeError, match=r"DFPatternCallback\.pattern must be a DFPattern, got None"):
        DFPatternCallback().rewrite(X)

    class Nothing(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_constant()

    with pytest.raises(NotImplementedError, match=r"Nothing has no callback; define callback\(self, pre, post"):
        Nothing().rewrite(const(1))

    def callback(pre: Expr, post: Expr, node_map: NodeMap) -> None:
        return None

    nothing = Nothing()
    object.__setattr__(nothing, "callback", callback)
    with pytest.raises(TypeError, match=r"Nothing\.callback must return an expression, got None"):
        nothing.rewrite(const(1))


def test_operator_can_be_replaced() -> None:
    class MulToDiv(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_op("multiply")

        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            return Op.get("divide")

    assert_structural_equal(MulToDiv().rewrite(multiply(multiply(X, Y), Z)), divide(divide(X, Y), Z))


class ToBatchNorm(DFPatternCallback):
    """Matches a batch normalization written as arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.x, self.mean, self.variance, self.gamma, self.beta = (wildcard() for _ in range(5))
        self.epsilon = is_constant()
        root = is_op("sqrt")(self.variance + self.epsilon)
        self.pattern = self.gamma * (self.x - self.mean) / root + self.beta

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        parts = (self.x, self.gamma, self.beta, self.mean, self.variance)
        epsilon = node_map[self.epsilon][0]
        assert isinstance(epsilon, Constant)
        x, gamma, beta, mean, variance = (node_map[part][0] for part in parts)
        return batch_norm(x, gamma, beta, mean, variance, epsilon=float(epsilon.data))[0]


def test_normalization_matches_in_any_association() -> None:
    x, mean, variance, gamma, beta = (var(name, shape=(2, 3)) for name in ("x", "mean", "variance", "gamma", "beta"))
    root = sqrt(add(variance, const(1e-5)))
    spellings = [
        add(divide(multiply(gamma, subtract(x, mean)), root), beta),
        add(beta, multiply(gamma, divide(subtract(x, mean), root))),
        add(multiply(divide(gamma, root), subtract(x, mean)), beta),
    ]
    expected = batch_norm(x, gamma, beta, mean, variance, epsilon=float(const(1e-5).data))[0]
    for spelling in spellings:
        assert_structural_equal(ToBatchNorm().rewrite(spelling), expected)


def test_nodes_between_child_and_parent_can_be_replaced() -> None:
    class Skip(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.conv = is_op("nn.conv2d")(wildcard(), wildcard())
            path = wildcard().has_attr({"TOpPattern": OpPattern.ELEMWISE})(None)
            self.pattern = dominates(self.conv, path, is_op("nn.relu")(wildcard()))

        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            return node_map[self.conv][0]

    conv = conv2d(X, W)
    assert_structural_equal(Skip().rewrite(sqrt(relu(sqrt(relu(conv))))), sqrt(conv))


def test_expression_can_be_replaced() -> None:
    class Swap(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_expr(add(X, Y))

        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            return subtract(X, Y)

    assert_structural_equal(Swap().rewrite(multiply(add(X, Y), add(Y, X))), multiply(subtract(X, Y), add(Y, X)))


def test_match_of_single_node_pattern_can_be_replaced() -> None:
    class Rename(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_var("x")

        def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
            return Y

    assert_structural_equal(Rename().rewrite(multiply(X, relu(X))), multiply(Y, relu(Y)))


class Commute(DFPatternCallback):
    """Swaps the operands of additions and products, once."""

    def __init__(self) -> None:
        super().__init__(rewrite_once=True)
        self.op, self.x, self.y = is_op("add") | is_op("multiply"), wildcard(), wildcard()
        self.pattern = self.op(self.x, self.y)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        return Call(node_map[self.op][0], [node_map[self.y][0], node_map[self.x][0]])


class NoDoubleNegation(DFPatternCallback):
    """Replaces `-(-x)` by `x`, and `x + -y` by `x - y`."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.x, self.y = wildcard(), wildcard()
        negative = is_op("negative")
        self.double = negative(negative(self.x))
        self.pattern = self.double | self.x + negative(self.y)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        if self.double in node_map:
            return node_map[self.x][0]
        return subtract(node_map[self.x][0], node_map[self.y][0])


@pytest.mark.slow
@settings(max_examples=amount(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_arithmetic_rewrites_keep_results(program: Program) -> None:
    mod, arguments = program
    result = mod.copy()
    for gvar, func in mod.functions.items():
        result[gvar] = rewrite([Commute(), NoDoubleNegation()], func, mod)
    assert difference(evaluate(mod, *arguments), evaluate(result, *arguments)) == ""


def test_deep_expression_is_rewritten_in_linear_time() -> None:
    deep: Expr = X
    expected: Expr = X
    for step in range(levels(50_000)):
        deep = add(deep, Y) if step % 2 else relu(deep)
        expected = subtract(expected, Y) if step % 2 else relu(expected)
    assert_structural_equal(AddToSub().rewrite(deep), expected)
    assert AddToSub().rewrite(expected) is expected
