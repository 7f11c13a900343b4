"""The prelude: the results of its functions, its types, and its import."""

import re

import pytest

from apass.relay.expr import GlobalVar
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, Value, is_array
from apass.relay.ir.module import IRModule
from apass.relay.parser import fromtext, parse
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_module


def python(value: Value) -> object:
    """Return a Relay value as Python lists, tuples and numbers."""
    if isinstance(value, tuple):
        return tuple(map(python, value))
    if is_array(value):
        return value.item()
    assert isinstance(value, ADTValue)
    if value.constructor.name_hint not in {"Cons", "Nil"}:
        return tuple(map(python, value.fields))
    elements: list[object] = []
    while isinstance(value, ADTValue) and value.fields:
        elements.append(python(value.fields[0]))
        value = value.fields[1]
    return elements


def list_text(*elements: object) -> str:
    """Return the text of a Relay list."""
    return f"Cons({elements[0]}, {list_text(*elements[1:])})" if elements else "Nil"


def value_of(text: str, definitions: str = "") -> object:
    """Return the value of an expression after type inference."""
    mod = parse(f"{definitions} def @main() {{ {text} }}", init_module=Prelude().mod)
    return python(evaluate(infer_module(mod)))


INC = "fn (%a: int32) -> int32 { %a + 1 }"
DOUBLE = "fn (%a: int32) -> int32 { %a * 2 }"
DIGITS = "fn (%a: int32, %b: int32) -> int32 { %a * 10 + %b }"
SOME = list_text(1, 2, 3)
COUNT_DOWN = """fn (%n: int32) -> Option[(int32, int32)] {
    if (%n > 0) { Some((%n - 1, %n)) } else { None }
}"""
RUNNING = "fn (%sum: int32, %a: int32) -> (int32, int32) { (%sum + %a, %sum * 10 + %a) }"


RESULTS: list[tuple[str, object]] = [
    ("@id(7)", 7),
    (f"@compose({INC}, {DOUBLE})(5)", 11),
    (f"@flip({DIGITS})(1, 2)", 21),
    (f"@iterate({DOUBLE}, 5)(1)", 32),
    (f"@iterate({DOUBLE}, 0)(1)", 1),
    (f"@hd({SOME})", 1),
    (f"@tl({SOME})", [2, 3]),
    (f"@nth({SOME}, 2)", 3),
    (f"@length({SOME})", 3),
    (f"@update({SOME}, 1, 9)", [1, 9, 3]),
    (f"@map({INC}, {SOME})", [2, 3, 4]),
    (f"@foldl({DIGITS}, 0, {SOME})", 123),
    (f"@foldr({DIGITS}, 4, {SOME})", 64),
    (f"@foldr1({DIGITS}, {SOME})", 33),
    (f"@sum({SOME})", 6),
    (f"@concat({SOME}, {SOME})", [1, 2, 3, 1, 2, 3]),
    (f"@filter(fn (%a: int32) -> bool {{ %a != 2 }}, {SOME})", [1, 3]),
    (f"@zip({SOME}, {list_text('(1, True)', '(2, False)')})", [(1, (1, True)), (2, (2, False))]),
    (f"@rev({SOME})", [3, 2, 1]),
    (f"@map_accuml({RUNNING}, 0, {SOME})", (6, [33, 12, 1])),
    (f"@map_accumr({RUNNING}, 0, {SOME})", (6, [51, 32, 3])),
    (f"@unfoldr({COUNT_DOWN}, 3)", [3, 2, 1]),
    (f"@unfoldl({COUNT_DOWN}, 3)", [1, 2, 3]),
    (f"@tmap({INC}, Rose(1, {list_text('Rose(2, Nil)', 'Rose(3, Nil)')}))", (2, [(3, []), (4, [])])),
    (f"@size(Rose(1, {list_text('Rose(2, Nil)', 'Rose(3, Nil)')}))", 3),
]


@pytest.mark.parametrize(("text", "value"), RESULTS)
def test_prelude_function_returns_expected_value(text: str, value: object) -> None:
    assert value_of(text) == value


def test_prelude_is_typed_and_round_trips_as_text() -> None:
    mod = Prelude().mod
    assert infer_module(mod) is mod
    assert structural_equal(fromtext(mod.astext()), mod)


def test_prelude_definitions_are_attributes() -> None:
    prelude = Prelude()
    assert prelude.get_type("List") == (prelude.l, prelude.cons, prelude.nil)
    assert prelude.get_type("Option") == (prelude.option, prelude.some, prelude.none)
    assert prelude.get_type("Tree") == (prelude.tree, prelude.rose)
    assert prelude.get_ctor("List", "Cons") is prelude.cons
    assert isinstance(prelude.map, GlobalVar)
    assert prelude.map is prelude.get_global_var("map") is prelude.mod.get_global_var("map")
    expected = "the prelude has no function 'lenght'; did you mean 'length'?"
    with pytest.raises(AttributeError, match=f"^{re.escape(expected)}$"):
        _ = prelude.lenght


def test_prelude_is_added_once_per_module() -> None:
    mod = parse("def @main(%x: int32) { %x }")
    first = Prelude(mod)
    assert first.mod is mod
    before = mod.functions
    mod.import_from_std("prelude.rly")
    assert Prelude(mod).cons is first.cons
    assert list(mod.functions.values()) == list(before.values())


def test_prelude_keeps_existing_definitions_of_parsed_module() -> None:
    again = fromtext(Prelude().mod.astext())
    nil = again.get_constructor("List", "Nil")
    assert Prelude(again).nil is nil


def test_import_from_std_rejects_unknown_file() -> None:
    expected = "the standard library has no file 'prelude'; it has gradient.rly, nat.rly, prelude.rly"
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(expected)}$"):
        IRModule().import_from_std("prelude")
