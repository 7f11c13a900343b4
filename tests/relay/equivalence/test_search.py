"""Proofs that Relay modules are equivalent."""

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass import relay
from apass.external.solver import NotEncodedError
from apass.plugins import Proof
from apass.relay.equivalence.search import search
from apass.relay.ir.ndarray import Array
from apass.relay.testing.programs import Program, programs

INTS = "%x: Tensor[(2), int32], %y: Tensor[(2), int32]"
FLOATS = "%x: Tensor[(2), float32], %y: Tensor[(2), float32]"
BYTES = "%x: Tensor[(2), uint8], %y: Tensor[(2), uint8]"
MATRIX = "%x: Tensor[(2, 3), float32]"


def of(parameters: str, body: str) -> bytes:
    return f'#[version = "0.0.5"]\ndef @main({parameters}) {{ {body} }}'.encode()


def compared(parameters: str, before: str, after: str) -> Proof:
    return search(of(parameters, before), of(parameters, after))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "before", "after"),
    [
        (INTS, "multiply(%x, 8)", "left_shift(%x, 3)"),
        (INTS, "subtract(add(%x, %y), %y)", "%x"),
        (INTS, "add(multiply(trunc_divide(%x, 3), 3), trunc_mod(%x, 3))", "%x"),
        (INTS, "add(multiply(floor_divide(%x, 4), 4), floor_mod(%x, 4))", "%x"),
        (INTS, "floor_divide(%x, 4)", "right_shift(%x, 2)"),
        (INTS, "trunc_divide(%x, %y)", "trunc_divide(%x, %y)"),
        (INTS, "left_shift(%x, %y)", "left_shift(%x, %y)"),
        (BYTES, "trunc_divide(%x, 4u8)", "right_shift(%x, 2u8)"),
        (BYTES, "bitwise_not(bitwise_and(%x, %y))", "bitwise_or(bitwise_not(%x), bitwise_not(%y))"),
        (BYTES, "logical_not(less(%x, %y))", "greater_equal(%x, %y)"),
        (BYTES, 'cast(cast(%x, dtype="int32"), dtype="uint8")', "%x"),
        (FLOATS, "add(multiply(%x, %y), %x)", "multiply(%x, add(%y, 1f))"),
        (FLOATS, "maximum(%x, 0f)", "nn.relu(%x)"),
        (FLOATS, "clip(%x, a_min=0f, a_max=6f)", "minimum(maximum(%x, 0f), 6f)"),
        (FLOATS, "exp(add(%x, %y))", "exp(add(%y, %x))"),
        (MATRIX, "sum(%x, axis=[0])", "sum(transpose(%x), axis=[1])"),
        (MATRIX, "max(%x)", "max(reshape(%x, newshape=[6]))"),
        ("%c: bool, %x: Tensor[(2), int32]", "if (%c) { %x } else { add(%x, 1) }", "where(%c, %x, add(%x, 1))"),
        (INTS, "let %f = fn (%a: Tensor[(2), int32]) { add(%a, %y) }; %f(%x)", "add(%x, %y)"),
        (INTS, "let %p = (%x, %y); add(%p.0, %p.1)", "add(%y, %x)"),
    ],
)
def test_equivalent_modules_are_proved(parameters: str, before: str, after: str) -> None:
    assert compared(parameters, before, after).equal is True


@pytest.mark.parametrize(
    ("parameters", "before", "after", "start"),
    [
        (INTS, "trunc_divide(%x, 2)", "right_shift(%x, 1)", "the result differs by up to "),
        (INTS, "greater(add(%x, 1), %x)", "greater(add(%x, %y), %x)", "the result differs by up to "),
        (FLOATS, "nn.relu(%x)", "negative(%x)", "the result differs by up to "),
        (FLOATS, "%x", "divide(multiply(%x, %y), %y)", "the result differs by up to inf in "),
        (INTS, "(%x, %y)", "(%y, %x)", "the result."),
        (INTS, "%x", "add(%x, trunc_mod(1, 2))", "the result differs by up to "),
    ],
)
def test_different_modules_have_counterexample(parameters: str, before: str, after: str, start: str) -> None:
    proof = compared(parameters, before, after)
    assert proof.equal is False
    assert proof.text.startswith(start)
    assert " for x = [" in proof.text


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("exp(add(%x, 1f))", "exp(%x)", "z3 knows nothing about exp"),
        (
            "divide(multiply(%x, %y), %y)",
            "%x",
            "equal unless the module before divides by zero, or shifts by too much",
        ),
    ],
)
def test_undecided_modules_have_reason(before: str, after: str, reason: str) -> None:
    assert compared(FLOATS, before, after) == Proof(None, reason)


@pytest.mark.parametrize(
    ("parameters", "body", "message"),
    [
        ("%x: Tensor[(2, 2), float32]", "nn.softmax(%x)", "operator nn.softmax"),
        ("%x: Tensor[(2000), float32]", "%x", "a tensor of 2,000 elements, more than 1,024"),
        ("%x: Tensor[(?), float32]", "%x", "tensors of the dynamic type Tensor[(?), float32]"),
        ("%x: Tensor[(2), float32]", 'cast(%x, dtype="int32")', "casts from floats to integers"),
        ("%x: Tensor[(2), float32]", "floor_divide(%x, %x)", "operator floor_divide of float32"),
    ],
)
def test_unsupported_module_is_named(parameters: str, body: str, message: str) -> None:
    with pytest.raises(NotEncodedError) as caught:
        compared(parameters, body, body)
    assert str(caught.value) == message


def test_recursion_ends() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(), int32]) -> Tensor[(), int32] { if (less(%x, 0)) { 0 } else { @main(subtract(%x, 1)) } }
"""
    with pytest.raises(NotEncodedError, match="more than 40 calls of functions"):
        search(text.encode(), text.encode())


def test_removed_main_is_an_error() -> None:
    with pytest.raises(NotEncodedError, match="there is no function main"):
        search(of("", "1"), b'#[version = "0.0.5"]\ndef @other() { 1 }')


def as_constant(value: Any) -> relay.Expr:
    if isinstance(value, tuple):
        fields = cast("tuple[object, ...]", value)
        return relay.Tuple(map(as_constant, fields))
    return relay.const(value)


def without_parameters(mod: relay.IRModule, arguments: list[Array]) -> bytes:
    """Return a module whose `main` has the arguments as constants."""
    func = mod["main"]
    body = relay.Call(relay.Function(func.params, func.body), [relay.const(argument) for argument in arguments])
    others = {var: other for var, other in mod.functions.items() if var.name_hint != "main"}
    return relay.astext(relay.IRModule({**others, relay.GlobalVar("main"): relay.Function([], body)})).encode()


@pytest.mark.slow
@given(programs())
def test_encoding_agrees_with_interpreter(program: Program) -> None:
    mod, arguments = program
    result = relay.evaluate(mod, *arguments)
    expected = relay.IRModule.from_expr(relay.Function([], as_constant(result)))
    try:
        proof = search(without_parameters(mod, arguments), relay.astext(expected).encode())
    except NotEncodedError:
        return
    assert proof.equal is not False
    if proof.equal is None:
        assert proof.text == "z3 knows nothing about tanh"


BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")
DIVIDING = ("divide", "trunc_divide", "floor_divide", "mod", "trunc_mod", "floor_mod")
COMPARING = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


@given(
    st.sampled_from((*BINARY, *DIVIDING, *COMPARING)), st.sampled_from(("int8", "uint8")), st.integers(), st.integers()
)
def test_operator_on_integers_agrees_with_kernel(name: str, dtype: str, lhs: int, rhs: int) -> None:
    left, right = (np.array(number % 256, "uint8").astype(dtype) for number in (lhs, rhs))
    if name in DIVIDING and int(right) in (0, -1):
        return
    assert_agrees_with_kernel(name, left, right)


@pytest.mark.parametrize("lhs", [-128, -127, -1, 0, 87, 126, 127])
@pytest.mark.parametrize("rhs", [-128, -43, -2, 3, 87, 127])
def test_floor_division_does_not_overflow(lhs: int, rhs: int) -> None:
    assert_agrees_with_kernel("floor_divide", np.array(lhs, "int8"), np.array(rhs, "int8"))


def assert_agrees_with_kernel(name: str, left: Any, right: Any) -> None:
    call = relay.Call(relay.op.get(name), [relay.const(left), relay.const(right)])
    before = relay.IRModule.from_expr(relay.Function([], call))
    result: Any = relay.evaluate(before)
    after = relay.IRModule.from_expr(relay.Function([], relay.const(result)))
    assert search(*(relay.astext(mod).encode() for mod in (before, after))).equal is True
