"""Gradients of programs: control flow, closures, references, data types."""

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.analysis import Feature, detect_feature, well_formed
from apass.relay.errors import OpNotImplementedError, TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, TypeData
from apass.relay.ir.expr import GlobalVar, const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.ir.post_order import post_order
from apass.relay.op import nn
from apass.relay.parser import parse
from apass.relay.prelude import Prelude
from apass.relay.testing import mlp
from apass.relay.transform import gradient
from apass.relay.transform.autodiff.first_order import first_order_gradient
from apass.relay.ty import FuncType, GlobalTypeVar, TensorType, TupleType, TypeVar
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount
from tests.relay.op.gradients.differences import check_function

SCALAR = TensorType((), "float64")


def number(name: str = "x") -> Var:
    return Var(name, SCALAR)


def real(value: float) -> Constant:
    return const(value, "float64")


def slopes(func: Function, *values: float, mod: IRModule | None = None) -> tuple[float, ...]:
    """Return the result of a function of scalars, then its gradients."""
    result = evaluate(Call(gradient(func, mod), [real(value) for value in values]), mod=mod)
    assert isinstance(result, tuple)
    assert isinstance(result[1], tuple)
    return tuple(np.asarray(part).item() for part in (result[0], *result[1]))


def test_gradient_has_the_type_of_tvm() -> None:
    x, y = var("x", shape=(2, 3)), var("y", shape=(3,))
    new = gradient(Function([x, y], x * y))
    result = TensorType((2, 3))
    types = [result, TensorType((3,))]
    assert new.checked_type == FuncType(types, TupleType([result, TupleType(types)]))
    assert well_formed(new)
    assert Feature.fGraph not in detect_feature(new)


def test_gradient_of_gradient_is_second_derivative() -> None:
    x, y = number(), number("y")
    once = gradient(Function([x], x * x * x))
    twice = gradient(Function([y], TupleGetItem(TupleGetItem(Call(once, [y]), 1), 0)))
    result = evaluate(Call(twice, [real(2)]))
    assert result == (12, (12,))


def test_shared_expression_is_differentiated_once() -> None:
    x = number()
    square = x * x
    assert slopes(Function([x], square * square), 2) == (16, 32)


@pytest.mark.parametrize(("value", "expected"), [(3.0, (9, 6)), (-3.0, (6, -2))])
def test_gradient_follows_the_chosen_branch(value: float, expected: tuple[float, float]) -> None:
    x = number()
    assert slopes(Function([x], If(op.greater(x, real(0)), x * x, real(-2) * x)), value) == expected


def test_gradient_of_closure_reaches_captured_variable() -> None:
    x, y, z, scale = number(), number("y"), number("z"), Var("scale")
    body = Let(scale, Function([z], z * x), Call(scale, [Call(scale, [y])]))
    assert slopes(Function([x, y], body), 3, 5) == (45, 30, 9)


def test_gradient_of_function_argument_and_result() -> None:
    x, z, inner = number(), number("z"), number("inner")
    twice = Var("f", FuncType([SCALAR], SCALAR))
    compose = Function([twice], Function([z], Call(twice, [Call(twice, [z])])))
    body = Call(Call(compose, [Function([inner], inner * inner)]), [x])
    assert slopes(Function([x], body), 2) == (16, 32)


def test_gradient_flows_through_references() -> None:
    x, cell = number(), Var("cell")
    write = RefWrite(cell, RefRead(cell) * x)
    body = Let(cell, RefCreate(x), Let(Var("_"), write, Let(Var("_"), write, RefRead(cell))))
    # The write is one expression with two users: it is evaluated once.
    assert slopes(Function([x], body), 3) == (9, 6)


def test_gradient_of_tuples_is_that_of_fields() -> None:
    x, y = number(), number("y")
    pair = Tuple([Tuple([x * y, x]), y])
    body = TupleGetItem(TupleGetItem(pair, 0), 0) + TupleGetItem(TupleGetItem(pair, 0), 1)
    assert slopes(Function([x, y], body), 2, 3) == (8, 4, 2)


def test_tuple_result_starts_at_its_first_tensor() -> None:
    x = number()
    result = evaluate(Call(gradient(Function([x], Tuple([Tuple([x * x]), real(7) * x]))), [real(3)]))
    assert result == (((9,), 21), (6,))


POWER = """#[version = "0.0.5"]
def @power(%x: float64, %n: int32) -> float64 {
  if (equal(%n, 0)) { 1f64 } else { multiply(%x, @power(%x, subtract(%n, 1))) }
}
def @main(%x: float64) -> float64 { @power(%x, 4) }
"""


def test_recursive_functions_get_counterparts() -> None:
    mod = parse(POWER)
    new = gradient(mod.get_global_var("main"), mod)
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["power", "main", "power_grad"]
    assert infer_module(mod) is mod
    assert evaluate(Call(new, [real(2)]), mod=mod) == (16, (32,))


def test_second_gradient_uses_unused_names() -> None:
    mod = parse(POWER)
    first = gradient(mod.get_global_var("main"), mod)
    second = gradient(mod.get_global_var("main"), mod)
    assert "power_grad_1" in mod
    assert evaluate(Call(first, [real(2)]), mod=mod) == evaluate(Call(second, [real(2)]), mod=mod)
    y = number("y")
    slope = Function([y], TupleGetItem(TupleGetItem(Call(first, [y]), 1), 0))
    assert evaluate(Call(gradient(slope, mod), [real(2)]), mod=mod) == (32, (48,))


def test_local_recursion_has_gradient() -> None:
    x, n, loop = number(), var("n", "int32"), Var("loop")
    body = If(op.equal(n, const(0)), x, Call(loop, [n - const(1)]) * x)
    func = Function([x], Let(loop, Function([n], body, SCALAR), Call(loop, [const(3)])))
    assert slopes(func, 2) == (16, 32)


def test_gradient_of_list_functions_of_the_prelude() -> None:
    prelude = Prelude()
    x, y, a, b = number(), number("y"), number("a"), number("b")
    items = Call(prelude.cons, [x, Call(prelude.cons, [y, Call(prelude.cons, [x, Call(prelude.nil, [])])])])
    squares = Call(prelude.map, [Function([a], a * a), items])
    product = Call(prelude.foldl, [Function([a, b], a * b), real(1), squares])
    mod = prelude.mod
    assert slopes(Function([x, y], product), 2, 3, mod=mod) == (144, 288, 96)
    assert {"map_grad", "foldl_grad"} <= {gvar.name_hint for gvar in mod.get_global_vars()}


def test_constructor_as_value_has_gradient() -> None:
    prelude = Prelude()
    x, a = number(), number("a")
    some = Call(prelude.map, [prelude.some, Call(prelude.cons, [x * x, Call(prelude.nil, [])])])
    head = Match(
        Call(prelude.hd, [some]),
        [Clause(PatternConstructor(prelude.some, [PatternVar(a)]), a)],
        complete=False,
    )
    assert slopes(Function([x], head), 3, mod=prelude.mod) == (9, 6)


def test_data_type_of_tensors_error_names_the_field() -> None:
    header = GlobalTypeVar("Box")
    box = Constructor("Box", [SCALAR], header)
    mod = IRModule({}, {header: TypeData(header, [], [box])})
    x = number()
    with pytest.raises(ValueError, match=r"Box\.Box has a field of type float64"):
        gradient(Function([x], Let(Var("box"), Call(box, [x]), x)), mod)


def test_primitive_function_is_differentiated() -> None:
    x, y = number(), number("y")
    kernel = Function([y], op.exp(y), attrs={"Primitive": 1})
    new = gradient(Function([x], Call(kernel, [x])))
    assert evaluate(Call(new, [real(0)])) == (1, (1,))
    assert "Primitive" not in str(new)


def checkpointed(x: Var, y: Var) -> Expr:
    inner = op.annotation.checkpoint(Tuple([op.exp(x * y), x]))
    return op.log(TupleGetItem(inner, 0)) * TupleGetItem(inner, 1)


def test_checkpoint_does_not_change_gradients() -> None:
    x, y = number(), number("y")
    np.testing.assert_allclose(slopes(Function([x, y], checkpointed(x, y)), 2, 3), (12, 12, 4))


def test_checkpoint_is_computed_again_for_the_gradient() -> None:
    x, y = number(), number("y")
    text = str(gradient(Function([x, y], checkpointed(x, y))))
    # Once for the result, once to differentiate it; the derivative of exp is a third call.
    assert text.count("exp(") == 3
    assert "Checkpoint" not in text


def test_checkpoint_that_captures_function_has_gradient() -> None:
    x, z, square = number(), number("z"), Var("square")
    body = Let(square, Function([z], z * z), op.annotation.checkpoint(Call(square, [x])) * x)
    assert slopes(Function([x], body), 2) == (8, 12)


def test_long_program_is_differentiated() -> None:
    x = number()
    body: Expr = x
    for _ in range(400):
        body = body + x
    assert slopes(Function([x], body), 1) == (401, 401)


@pytest.mark.slow
def test_deep_branches_are_differentiated() -> None:
    x = number()
    body: Expr = x * x
    for _ in range(400):
        body = If(op.greater(x, real(0)), body, x)
    assert slopes(Function([x], body), 3) == (9, 6)


@pytest.mark.slow
def test_first_order_gradient_of_long_program() -> None:
    x = number()
    body: Expr = x
    for _ in range(3000):
        body = body + x
    assert evaluate(Call(first_order_gradient(Function([x], body)), [real(1)])) == (3001, (3001,))


def test_gradient_of_many_fields_is_linear() -> None:
    def size(count: int) -> int:
        x = var("x", shape=(count,), dtype="float64")
        fields = list(op.split(x, count))
        body: Expr = fields[0]
        for field in fields[1:]:
            body = body + field * field
        func = first_order_gradient(Function([x], body))
        _, (slopes,) = cast("tuple[Array, tuple[Array]]", evaluate(func, np.arange(count) + 1.0))
        assert list(slopes) == [1, *(2 * position + 2 for position in range(1, count))]
        return sum(1 for _ in post_order(func))

    assert size(40) - size(30) == size(30) - size(20)


def test_function_called_twice_has_two_gradients() -> None:
    x, y = number(), number("y")
    square = Function([y], y * y)
    func = Function([x], Call(square, [Call(square, [x])]))
    assert evaluate(Call(first_order_gradient(func), [real(2)])) == (16, (32,))
    assert slopes(func, 2) == (16, 32)


def test_first_order_mode_is_deprecated_as_in_tvm() -> None:
    x = number()
    with pytest.warns(DeprecationWarning, match="run the pass FirstOrderGradient instead"):
        new = gradient(Function([x], x * x), mode="first_order")
    assert evaluate(Call(new, [real(3)])) == (9, (6,))
    with pytest.raises(RuntimeError, match="mode first_order takes no module"):
        gradient(Function([x], x), IRModule(), "first_order")


@pytest.mark.parametrize("mode", [gradient, first_order_gradient])
def test_missing_gradients_are_named(mode: Callable[[Function], Function]) -> None:
    x = number()
    with pytest.raises(TypeInferenceError):
        mode(Function([x], op.unique(x)[0]))
    data = var("data", shape=(4,))
    values = TupleGetItem(op.unique(op.fixed_point_multiply(data, 1, 0)).astuple(), 0)
    with pytest.raises(
        OpNotImplementedError, match=r"operators fixed_point_multiply, unique do not have a registered gradi"
    ):
        mode(Function([data], values))


def test_wrong_inputs_are_refused() -> None:
    x, t = number(), TypeVar("t")
    with pytest.raises(ValueError, match="mode must be one of first_order, higher_order, got 'third_order'"):
        gradient(Function([x], x), mode="third_order")
    with pytest.raises(TypeError, match=r"is that of a function or of a global variable, got <relay.Var %x>"):
        gradient(x)
    with pytest.raises(TypeError, match="mod must be an IRModule or None, got 'first_order'"):
        gradient(Function([x], x), cast("IRModule", "first_order"))
    with pytest.raises(ValueError, match="the gradient of @f requires the module that defines it"):
        gradient(GlobalVar("f"))
    with pytest.raises(ValueError, match="polymorphic function is not supported, got the type parameters t"):
        gradient(Function([y := Var("y", t)], y, t, [t]))
    with pytest.raises(ValueError, match="the parameters must be tensors"):
        gradient(Function([Var("p", TupleType([SCALAR]))], x))
    with pytest.raises(ValueError, match="the result must contain a tensor"):
        gradient(Function([x], Tuple([])))
    with pytest.raises(ValueError, match="gradients exist only for tensors and tuples of tensors"):
        gradient(Function([x], RefCreate(x)))


def test_first_order_gradient_refuses_control_flow() -> None:
    x = number()
    bodies = {
        "If": If(op.greater(x, real(0)), x, x),
        "Let": Let(Var("y"), x, x),
        "RefRead": RefRead(RefCreate(x)),
    }
    for kind, body in bodies.items():
        with pytest.raises(ValueError, match=f"does not support {kind} nodes; use the mode higher_order"):
            first_order_gradient(Function([x], body))


@pytest.fixture(name="wrong_gradient")
def _wrong_gradient() -> Iterator[Callable[[object], None]]:
    old = op.get("exp").get_attr("FPrimalGradient")

    def set_result(result: object) -> None:
        def rule(orig: Call, grad: Expr) -> object:
            return result

        op.get("exp").set_attr("FPrimalGradient", rule)

    yield set_result
    op.get("exp").set_attr("FPrimalGradient", old)


def test_wrong_registered_gradient_is_reported(wrong_gradient: Callable[[object], None]) -> None:
    x = number()
    wrong_gradient([])
    with pytest.raises(ValueError, match="gradient of exp must return an expression for each of 1 arguments, got 0"):
        gradient(Function([x], op.exp(x)))
    wrong_gradient([3])
    with pytest.raises(TypeError, match="gradient of exp must return expressions, got 3"):
        gradient(Function([x], op.exp(x)))


def test_registered_gradient_is_used() -> None:
    old = op.get("ceil").get_attr("FPrimalGradient")
    x = number()

    @op.register_gradient("ceil", level=11)
    def straight_through(orig: Call, grad: Expr) -> list[Expr]:
        return [grad + orig - orig]

    try:
        assert slopes(Function([x], op.ceil(x)), 1.5) == (2, 1)
    finally:
        op.get("ceil").reset_attr("FPrimalGradient")
        op.get("ceil").set_attr("FPrimalGradient", old)
    assert straight_through is not old


def _row_sum(x: Expr) -> Expr:
    return op.sum(x, 0, True)


def _scaled_down(a: Expr, b: Expr) -> Expr:
    return op.divide(a, op.exp(b))


def composed(data: st.DataObject) -> tuple[Function, list[Array]]:
    """Return a random smooth function of two tensors, and values."""
    shape = data.draw(st.sampled_from([(2,), (2, 3), (1, 3)]))
    params = [Var(name, TensorType(shape, "float64")) for name in ("x", "y")]
    pool: list[Expr] = list(params)
    unary: list[Callable[[Expr], Expr]] = [op.sin, op.tanh, op.sigmoid, op.erf, nn.softmax, _row_sum, op.copy]
    binary: list[Callable[[Expr, Expr], Expr]] = [op.add, op.multiply, op.subtract, _scaled_down, op.maximum]
    for _ in range(data.draw(st.integers(1, 6))):
        first, second = (data.draw(st.sampled_from(pool)) for _ in range(2))
        if data.draw(st.booleans()):
            pool.append(data.draw(st.sampled_from(unary))(first))
        else:
            pool.append(data.draw(st.sampled_from(binary))(first, second))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    return Function(params, op.sum(pool[-1])), [rng.uniform(-1, 1, shape) for _ in params]


@given(data=st.data())
@settings(max_examples=amount(25))
def test_gradient_of_random_program_equals_differences(data: st.DataObject) -> None:
    check_function(*composed(data))


def test_gradient_descent_lowers_the_loss_of_a_model() -> None:
    mod, params = mlp.get_workload(4, 5, (1, 6, 6))
    net = mod["main"]
    targets = var("targets", shape=(4, 5))
    loss = Function([*net.params, targets], nn.cross_entropy(net.body, targets))
    rng = np.random.default_rng(0)
    values = {name: rng.normal(0, 0.3, array.shape).astype("float32") for name, array in params.items()}
    fixed = {
        "data": rng.normal(0, 1, (4, 1, 6, 6)).astype("float32"),
        "targets": np.eye(5, dtype="float32")[[0, 3, 1, 1]],
    }
    step = first_order_gradient(loss)
    losses: list[float] = []
    for _ in range(3):
        inputs = values | fixed
        result = evaluate(step, *[inputs[param.name_hint] for param in loss.params])
        assert isinstance(result, tuple)
        assert isinstance(result[1], tuple)
        losses.append(np.asarray(result[0]).item())
        found = dict(zip([param.name_hint for param in loss.params], result[1], strict=True))
        values = {name: array - np.float32(0.05) * np.asarray(found[name]) for name, array in values.items()}
    assert losses[0] > losses[1] > losses[2]
