"""The generic format, whose equal lines are parsed and printed once."""

from io import StringIO
from typing import Any
from unittest.mock import Mock

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer

import apass
from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.text import new_context, parse_module, print_module
from tests.helpers.rows import row
from tests.helpers.xdsl_modules import CALLS, SUMS, UNKNOWN, module

LINES = """\
func.func @f(%a: i32, %f: f32) -> i32 {
  %v0 = "arith.addi"(%a, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
  %v1 = "arith.addi"(%v0, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
  %v2 = "arith.addi"(%v1, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32  // a comment
  %v3 = "arith.addi"(%v2, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32  // a comment
  %v4 = "arith.addi"(%v3, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc("kernel.c":1:2)
  %v5 = "arith.addi"(%v4, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32 loc("kernel.c":1:2)
  %v6 = "arith.addi"(%v5, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) ->
    i32
  %v7 = "arith.addi"(%v6, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) ->
    i32
  "test.op"(%v6) {text = "(%a) : () -> ()", nan = 0x7FC00000 : f32, zero = -0.0 : f32} : (i32) -> ()
  "test.op"(%v7) {text = "(%a) : () -> ()", nan = 0x7FC00000 : f32, zero = 0.0 : f32} : (i32) -> ()
  "test.op"() : () -> () "test.op"() : () -> ()
  %pair:2 = "test.op"(%a) : (i32) -> (i32, i32)
  %first = "test.op"(%pair#0) : (i32) -> i32
  %second = "test.op"(%pair#1) : (i32) -> i32
  "test.op"(%later) : (i32) -> ()
  "test.op"(%later) : (i32) -> ()
  %later = "test.op"(%pair) : (i32) -> i32
  "cf.br"(%v7)[^end] : (i32) -> ()
^end(%last: i32):
  "func.return"(%last) : (i32) -> ()
}
"""
"""Operations whose lines are equal, or nearly equal, after their operands."""


def parse_plainly(text: str) -> ModuleOp:
    """Return the module that xDSL reads."""
    return Parser(new_context(allow_unregistered=True), text).parse_module()


def print_plainly(mod: ModuleOp) -> str:
    """Return the text that xDSL prints in the generic format."""
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(mod)
    return f"{stream.getvalue()}\n"


@pytest.mark.parametrize("text", [LINES, SUMS, CALLS])
def test_modules_are_those_of_xdsl(text: str) -> None:
    for given in (text, ADAPTER.dumps(parse_plainly(text)).decode()):
        assert ADAPTER.exact_fingerprint(module(given)) == ADAPTER.exact_fingerprint(parse_plainly(given))


@pytest.mark.parametrize("text", [LINES, SUMS, CALLS, UNKNOWN.partition("%data")[0]])
def test_text_is_that_of_xdsl(text: str) -> None:
    mod = parse_plainly(text.replace(' loc("kernel.c":1:2)', ""))
    assert ADAPTER.dumps(mod).decode() == print_plainly(mod)


def test_equal_lines_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    add = '"arith.addi"(%{}, %a) <{{overflowFlags = #arith.overflow<none>}}> : (i32, i32) -> i32\n'
    names = ["a", *(f"v{number}" for number in range(50))]
    lines = [f"%v{number} = {add.format(name)}" for number, name in enumerate(names)]
    parse = Mock(side_effect=Parser.parse_function_type)

    def counted(parser: Parser) -> object:
        return parse(parser)

    monkeypatch.setattr(Parser, "parse_function_type", counted)
    mod = module('%a = "test.op"() : () -> i32\n' + "".join(lines))
    assert parse.call_count == 2
    assert len(mod.body.ops) == 52


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('%v0 = "test.op"(%a) : (i32) -> i32', r"test.mlir:4:1(.|\n)*SSA value %v0 is already defined"),
        ('%v1 = "test.op"(%f) : (i32) -> i32', "operand is used with type i32, but has been previously used"),
        ('%v1 = "test.op"(%a, %a) : (i32) -> i32', "expected 1 operand types but had 2"),
        ('%v1:2 = "test.op"(%a) : (i32) -> i32', "Operation has 1 results, but was given 2 to bind"),
        ('%v1 = "test.op"(%unknown) : (i32) -> i32', "values used but not defined"),
    ],
)
def test_errors_are_those_of_xdsl(line: str, message: str) -> None:
    text = f"""\
%a = "test.op"() : () -> i32
%f = "test.op"() : () -> f32
%v0 = "test.op"(%a) : (i32) -> i32
{line}
"""
    with pytest.raises(apass.errors.AdapterError, match=message):
        parse_module(text, "test.mlir")


def test_bit_patterns_keep_their_numbers() -> None:
    for tp, pattern, number in (
        ("f32", "0x4D8EF3C2", 299792448.0),
        ("f32", "0xFF800000", float("-inf")),
        ("f64", "0x7FF0000000000000", float("inf")),
        ("f16", "0x0001", 2.0**-24),
        ("i32", "0x10", 16),
    ):
        for values in (pattern, f"[{pattern}, {pattern}]"):
            mod = module(f'"test.op"() {{value = dense<{values}> : tensor<2x{tp}>}} : () -> ()')
            again = ADAPTER.loads(ADAPTER.dumps(mod))
            with row((tp, values)):
                value: Any = next(iter(mod.body.ops)).attributes["value"]
                assert list(value.get_values()) == [number, number]
                assert ADAPTER.equal(mod, again)


def test_bit_pattern_that_is_too_long_is_rejected() -> None:
    with pytest.raises(apass.errors.AdapterError, match="0x123456789 has more bits than f32"):
        module('"test.op"() {value = dense<0x123456789> : tensor<2xf32>} : () -> ()')


def test_arguments_with_attributes_keep_their_locations() -> None:
    text = """builtin.module {
  func.func private @g(%x: i32 {test.name = "x"} loc("a.py":5:7), %y: i32 {test.name = "y"}) {
    func.return
  }
  func.func private @h(%x: i32 {test.name = "x"}) {
    func.return
  }
}
"""
    printed = print_module(parse_module(text, "m"))
    assert 'i32 {test.name = "x"} loc("a.py":5:7)' in printed
    assert print_module(parse_module(printed, "m")) == printed
    assert "loc" not in printed.partition("@h")[2]
