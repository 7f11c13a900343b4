"""Proofs that functions of arithmetic in MLIR are equivalent."""

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, i8
from xdsl.interpreter import Interpreter
from xdsl.interpreters import register_implementations

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.equivalence import search
from apass.adapters.xdsl.text import new_context, parse_module
from apass.external.solver import NotEncodedError
from apass.plugins import Proof
from tests.helpers.amounts import some
from tests.helpers.rows import row

TWO = "%x: i32, %y: i32"


def module(parameters: str, body: str, result: str = "i32") -> bytes:
    text = f"func.func @f({parameters}) -> {result} {{ {body} }}"
    return ADAPTER.dumps(parse_module(text, "m"))


def compared(before: str, after: str, *, parameters: str = TWO, result: str = "i32") -> Proof:
    return search(module(parameters, before, result), module(parameters, after, result))


RETURN_X = "func.return %x : i32"
SUM = "%r = arith.addi %x, %y : i32 func.return %r : i32"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SUM, "%r = arith.addi %y, %x : i32 func.return %r : i32"),
        (
            "%c = arith.constant 8 : i32 %r = arith.muli %x, %c : i32 func.return %r : i32",
            "%c = arith.constant 3 : i32 %r = arith.shli %x, %c : i32 func.return %r : i32",
        ),
        (
            "%c = arith.constant 2 : i32 %r = arith.divui %x, %c : i32 func.return %r : i32",
            "%c = arith.constant 1 : i32 %r = arith.shrui %x, %c : i32 func.return %r : i32",
        ),
        # The overflow of the first is poison, so the result of the second is allowed.
        (
            "%s = arith.addi %x, %y overflow<nsw> : i32 %r = arith.subi %s, %y : i32 func.return %r : i32",
            RETURN_X,
        ),
        ("%d = arith.divsi %x, %y : i32 func.return %x : i32", RETURN_X),
    ],
)
def test_equivalent_functions_are_proved(before: str, after: str) -> None:
    assert compared(before, after) == Proof(True, "proved for all arguments")


def test_branch_equals_selection() -> None:
    before = "%r = arith.select %c, %x, %y : i32 func.return %r : i32"
    after = "%r = scf.if %c -> (i32) { scf.yield %x : i32 } else { scf.yield %y : i32 } func.return %r : i32"
    assert compared(before, after, parameters=f"%c: i1, {TWO}").equal is True


def test_calls_are_inlined() -> None:
    text = """
func.func @f(%x: i32) -> i32 { %r = func.call @g(%x) : (i32) -> i32 func.return %r : i32 }
func.func private @g(%x: i32) -> i32 { %r = arith.addi %x, %x : i32 func.return %r : i32 }
"""
    before = ADAPTER.dumps(parse_module(text, "m"))
    doubled = "%c = arith.constant 2 : i32 %r = arith.muli %x, %c : i32 func.return %r : i32"
    assert search(before, module("%x: i32", doubled)).equal is True


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (
            "%c = arith.constant 2 : i32 %r = arith.divsi %x, %c : i32 func.return %r : i32",
            "%c = arith.constant 1 : i32 %r = arith.shrsi %x, %c : i32 func.return %r : i32",
            "function 'f' returns (0) before, and returns (-1) after, for the arguments (-1, 0)",
        ),
        (
            "%r = arith.constant 1 : i32 func.return %r : i32",
            "%r = arith.divsi %x, %x : i32 func.return %r : i32",
            "returns (1) before, and has no result after, for the arguments (0, ",
        ),
        (
            "%r = arith.addi %x, %y : i32 func.return %r : i32",
            "%r = arith.addi %x, %y overflow<nuw> : i32 func.return %r : i32",
            "before, and has no result after, for the arguments (",
        ),
    ],
)
def test_different_functions_have_counterexample(before: str, after: str, text: str) -> None:
    proof = compared(before, after)
    assert proof.equal is False
    assert text in proof.text


def test_flags_make_results_poison() -> None:
    calls = [(f'"arith.{name}"(%x, %y)', " <{isExact}>", "(i8, i8) -> i8") for name in EXACT]
    overflows = [f" <{{overflowFlags = #arith.overflow<{flag}>}}>" for flag in ("nsw", "nuw")]
    calls += [('"arith.trunci"(%y)', flag, "(i8) -> i8") for flag in overflows]
    for call, flag, types in calls:
        width = "i4" if "trunci" in call else "i8"
        with_flag, without = (
            f"%r = {call}{text} : {types.replace('-> i8', f'-> {width}')} func.return %r : {width}"
            for text in (flag, "")
        )
        for before, after, is_equal in ((with_flag, without, True), (without, with_flag, False)):
            with row((before, after)):
                assert compared(before, after, parameters="%x: i8, %y: i8", result=width).equal is is_equal


def test_signed_divisions_overflow() -> None:
    poison = "%s = arith.shli %y, %y : i8"  # poison if %y is -1
    for name, operand, lines in (("remsi", "%x", ""), ("divsi", "%x", ""), ("remsi", "%s", poison)):
        divided = f"{lines} %q = arith.{name} {operand}, %y : i8 func.return %y : i8"
        guarded = f"""{lines} %m = arith.constant -1 : i8 %c = arith.cmpi eq, %y, %m : i8
            %r = scf.if %c -> (i8) {{ scf.yield %y : i8 }} else {{
                %q = arith.{name} {operand}, %y : i8 scf.yield %y : i8 }} func.return %r : i8"""
        with row((name, operand)):
            proof = compared(guarded, divided, parameters="%x: i8, %y: i8", result="i8")
            assert proof.equal is False
            assert compared(divided, guarded, parameters="%x: i8, %y: i8", result="i8").equal is True


def test_exact_operation_is_undone() -> None:
    for name, inverse in EXACT.items():
        body = f'%q = "arith.{name}"(%x, %y) <{{isExact}}> : (i8, i8) -> i8 %r = arith.{inverse} %q, %y : i8'
        with row(name):
            proof = compared(
                f"{body} func.return %r : i8", "func.return %x : i8", parameters="%x: i8, %y: i8", result="i8"
            )
            assert proof.equal is True


def test_unknown_flag_is_not_encoded() -> None:
    body = '%r = "arith.extui"(%x) <{nonNeg}> : (i8) -> i32 func.return %r : i32'
    proof = compared(body, body, parameters="%x: i8")
    assert proof == Proof(None, "f (not encoded for the solver: the attribute 'nonNeg' of arith.extui)")


def test_declared_function_is_not_encoded() -> None:
    text = "func.func private @g() func.func @f() { func.call @g() : () -> () func.return }"
    data = ADAPTER.dumps(parse_module(text, "m"))
    assert search(data, data) == Proof(None, "f (not encoded for the solver: calls of 'g', which has no body)")


def test_changes_beside_functions_are_undecided() -> None:
    for beside in (
        "builtin.module { func.func @g() -> i32 { %c = arith.constant 1 : i32 func.return %c : i32 } }",
        "llvm.func @g() -> i32 { %c = llvm.mlir.constant(1 : i32) : i32 llvm.return %c : i32 }",
    ):
        before, after = (
            ADAPTER.dumps(parse_module(f"func.func @f() {{ func.return }} {text}", "m"))
            for text in (beside, beside.replace("1 : i32", "2 : i32"))
        )
        with row(beside):
            assert search(before, before).equal is True
            assert search(before, after) == Proof(None, "operations beside the functions (they changed)", ("f",))


def test_unsupported_operation_is_named() -> None:
    body = "%r = math.absi %x : i32 func.return %r : i32"
    assert compared(body, body) == Proof(None, "f (not encoded for the solver: operation math.absi)")


def test_changed_signature_is_undecided() -> None:
    proof = search(module(TWO, RETURN_X), module("%x: i32", RETURN_X))
    assert proof == Proof(None, "f (not encoded for the solver: its signature changed)")


def test_proved_functions_are_named_beside_others() -> None:
    text = f"func.func @f({TWO}) -> i32 {{ {RETURN_X} }} func.func @g(%x: f32) -> f32 {{ func.return %x : f32 }}"
    data = ADAPTER.dumps(parse_module(text, "m"))
    assert search(data, data) == Proof(None, "g (not encoded for the solver: values of type f32)", ("f",))


def test_module_without_functions_is_not_encoded() -> None:
    data = ADAPTER.dumps(parse_module("builtin.module {}", "m"))
    with pytest.raises(NotEncodedError, match="a module without public functions"):
        search(data, data)


def test_extended_operations_agree_with_exact_numbers() -> None:
    for name, is_signed in (("addui", False), ("mului", False), ("mulsi", True)):
        carry = "i1" if name == "addui" else "i8"
        for lhs, rhs in some(list(product(EDGES, EDGES))):
            exact = [number if is_signed else number % 256 for number in (lhs, rhs)]
            result = sum(exact) if name == "addui" else exact[0] * exact[1]
            low, high = result % 256, (result >> 8) % (2 if carry == "i1" else 256)
            operands = f"%a = arith.constant {lhs} : i8 %b = arith.constant {rhs} : i8"
            extended = "" if carry == "i8" else ", i1"
            before = f"{operands} %l, %h = arith.{name}_extended %a, %b : i8{extended} func.return %l, %h : i8, {carry}"
            constants = f"%l = arith.constant {low} : i8 %h = arith.constant {high} : {carry}"
            proof = compared(before, f"{constants} func.return %l, %h : i8, {carry}", result=f"(i8, {carry})")
            with row(f"{name} {lhs} {rhs}"):
                assert proof.equal is True


EXACT = {"divsi": "muli", "divui": "muli", "shrsi": "shli", "shrui": "shli"}
"""Operations with the flag `exact`, and the operation that undoes them."""

OPERATIONS = (
    *("addi", "subi", "muli", "andi", "ori", "xori", "shli", "shrsi"),
    *("divsi", "remsi", "floordivsi"),
)


EDGES = (-128, -127, -43, -2, -1, 0, 1, 3, 43, 87, 126, 127)


def test_divisions_agree_at_the_edges() -> None:
    for divisor, number in some([pair for pair in product(EDGES, EDGES) if pair[0] != 0]):
        for name, quotient in (("floordivsi", number // divisor), ("ceildivsi", -(-number // divisor))):
            if quotient == 128:
                continue
            constants = f"%x = arith.constant {number} : i8 %y = arith.constant {divisor} : i8"
            before = f"{constants} %r = arith.{name} %x, %y : i8 func.return %r : i8"
            after = f"%r = arith.constant {quotient} : i8 func.return %r : i8"
            with row((name, number, divisor)):
                assert compared(before, after, parameters="", result="i8").equal is True


@given(st.sampled_from(OPERATIONS), st.integers(-128, 127), st.integers(-128, 127))
def test_encoding_agrees_with_interpreter(name: str, lhs: int, rhs: int) -> None:
    if name.startswith(("shl", "shr")):
        rhs %= 8
    assume(("div" not in name and "rem" not in name) or rhs not in (0, -1))
    text = f"func.func @f(%x: i8, %y: i8) -> i8 {{ %r = arith.{name} %x, %y : i8 func.return %r : i8 }}"
    mod = parse_module(text, "m")
    interpreter = Interpreter(mod)
    register_implementations(interpreter, new_context())
    scalars: Any = [IntegerAttr(number, i8) for number in (lhs, rhs)]
    [result] = interpreter.call_op("f", tuple(scalars))
    constants = f"%x = arith.constant {lhs} : i8 %y = arith.constant {rhs} : i8"
    before = f"{constants} %r = arith.{name} %x, %y : i8 func.return %r : i8"
    after = f"%r = arith.constant {result.value.data} : i8 func.return %r : i8"
    assert compared(before, after, parameters="", result="i8").equal is True
