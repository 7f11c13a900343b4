"""LazyGradientInit: which operators stay, types, meaning, depth."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.expr import Call, Expr, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import Value
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import GlobalVar, const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.parser import parse
from apass.relay.testing.programs import Program, programs
from apass.relay.transform import LazyGradientInit
from apass.relay.transform.lazy_gradient_init import lazy_gradient_init
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount, levels
from tests.relay.hard_programs import HARD_PROGRAMS

VERSION = '#[version = "0.0.5"]\n'
X = np.array([1.0, -2.0], "float32")


def module(body: str) -> IRModule:
    return parse(f"{VERSION}def @main(%x: Tensor[(2), float32]) {{ {body} }}")


def names(func: Function) -> Counter[str]:
    """Return how often a function refers to each constructor and global function."""
    found = (str(getattr(node, "name_hint", "")) for node in post_order(func) if not isinstance(node, apass.relay.Var))
    return Counter(filter(None, found))


def assert_same_meaning(mod: IRModule, arguments: Sequence[object]) -> None:
    after = lazy_gradient_init(mod)
    assert what_is_ill_formed(after) == []
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
    assert infer_module(after)["main"].checked_type == infer_module(mod)["main"].checked_type


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ones(shape=[2], dtype=\"float32\")", {"One": 1, "FromGradCell": 1, "Raw": 1}),
        ("zeros(shape=[2], dtype=\"float32\")", {"Zero": 1, "FromGradCell": 1, "Raw": 1}),
        ("ones_like(%x)", {"One": 1, "FromGradCell": 2, "Raw": 1}),
        ("zeros_like(%x)", {"Zero": 1, "FromGradCell": 2, "Raw": 1}),
        ("add(%x, %x)", {"AddGradCell": 1, "FromGradCell": 1, "Raw": 1}),
        ("multiply(%x, %x)", {"MultiplyGradCell": 1, "FromGradCell": 1, "Raw": 1}),
        ("add(%x, 1f)", {"FromGradCell": 3, "Raw": 3}),
        ("negative(%x)", {"FromGradCell": 2, "Raw": 2}),
    ],
)  # fmt: skip
def test_operators_use_cells_as_in_tvm(body: str, expected: dict[str, int]) -> None:
    mod = module(body)
    # A constructor or global function is one node, or one for each use.
    found = names(apass.run(LazyGradientInit(), mod)["main"])
    assert set(found) == set(expected)
    assert_same_meaning(mod, [X])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("multiply(zeros_like(%x), %x)", [0, 0]),
        ("multiply(%x, zeros_like(%x))", [0, 0]),
        ("multiply(ones_like(%x), %x)", [1, -2]),
        ("multiply(%x, ones_like(%x))", [1, -2]),
        ("add(zeros_like(%x), %x)", [1, -2]),
        ("add(%x, zeros_like(%x))", [1, -2]),
        ("add(ones_like(%x), %x)", [2, -1]),
        ("add(ones_like(%x), ones_like(%x))", [2, 2]),
        ("split(concatenate((%x, zeros_like(%x))), indices_or_sections=2).1", [0, 0]),
    ],
)
def test_zeros_and_ones_are_skipped(body: str, expected: list[int]) -> None:
    result = evaluate(lazy_gradient_init(module(body)), X)
    assert isinstance(result, np.ndarray)
    assert result.tolist() == expected


def computed(body: str) -> list[Value]:
    """Return the values that `relay.op.debug` records in the converted program."""
    seen: list[Value] = []
    x = var("x", shape=(2,))
    mod = module(body)
    recorded = Call(Function([x], apass.relay.op.debug(x, seen.append)), [mod["main"].params[0]])
    call = mod["main"].body
    assert isinstance(call, Call)
    func = Function(mod["main"].params, Call(call.op, [recorded, *call.args[1:]], call.attrs))
    evaluate(lazy_gradient_init(IRModule.from_expr(func)), X)
    return seen


def test_argument_of_unused_zeros_is_computed() -> None:
    assert len(computed("zeros_like(%x)")) == 1


def test_calls_of_functions_convert_arguments() -> None:
    text = """
    def @f(%p: (Tensor[(2), float32], float32)) { (multiply(%p.0, %p.1), ()) }
    def @main(%x: Tensor[(2), float32]) { let %y = @f((zeros_like(%x), 2f)); add(%y.0, %x) }
    """
    mod = parse(VERSION + text)
    assert_same_meaning(mod, [X])
    after = lazy_gradient_init(mod)
    assert all(after[name] is not mod[name] for name in ("f", "main"))


@pytest.mark.parametrize(
    "text",
    [
        "def @main[A](%x: A) -> A { %x }",
        "def @main(%f: fn (int32) -> int32) { %f(1) }",
        'def @main(%x: int32, Compiler="other") { add(%x, 1) }',
        "def @main(%x: int32) { fn (%y: int32, Primitive=1) { add(%y, 1) }(%x) }",
        "type Box { Box(int32), } def @main(%x: int32) { match (Box(%x)) { Box(%y) => %y } }",
    ],
)
def test_unsupported_function_stays(text: str) -> None:
    mod = parse(VERSION + text)
    assert lazy_gradient_init(mod) is mod


def test_ill_typed_function_stays() -> None:
    x = var("x", shape=(2,))
    mod = IRModule.from_expr(Function([x], call_op("add", x, const(True))))
    assert lazy_gradient_init(mod) is mod


def test_function_as_value_stays() -> None:
    text = "def @f(%x: int32) { %x } def @main(%x: int32) { let %g = @f; %g(%x) }"
    mod = parse(VERSION + text)
    assert lazy_gradient_init(mod)["main"].body is not None
    assert_same_meaning(mod, [3])


def test_converted_module_is_not_converted_again() -> None:
    once = infer_module(lazy_gradient_init(module("ones_like(%x)")))
    assert lazy_gradient_init(once) is once


def test_module_keeps_other_attributes() -> None:
    mod = parse(VERSION + "def @main(%x: int32, Inline=1) { add(%x, 1) }")
    after = lazy_gradient_init(mod)
    assert after["main"].attrs == mod["main"].attrs
    assert GlobalVar("AddGradCell") in after
    assert "AddGradCell" not in mod


@pytest.mark.parametrize("name", HARD_PROGRAMS)
def test_meaning_of_hard_program_is_kept(name: str) -> None:
    text, arguments = HARD_PROGRAMS[name]
    assert_same_meaning(parse(text), arguments)


@settings(max_examples=amount(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(refs=True))
def test_meaning_of_random_program_is_kept(program: Program) -> None:
    assert_same_meaning(*program)


@pytest.mark.slow
def test_deep_program_is_converted() -> None:
    x = var("x", shape=(2,))
    body: Expr = x
    for _ in range(levels(5_000)):
        body = call_op("add", body, call_op("ones_like", x))
    assert_same_meaning(IRModule.from_expr(Function([x], body)), [X])


def test_deep_tuple_is_converted() -> None:
    x = var("x", shape=(2,))
    body: Expr = x
    for _ in range(2_000):
        body = Tuple([body])
    for _ in range(2_000):
        body = TupleGetItem(body, 0)
    assert_same_meaning(IRModule.from_expr(Function([x], body)), [X])
