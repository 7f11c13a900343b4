"""The prelude: its functions compute what their names say, and a module gets it once."""

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
    """Return a value of Relay as one of Python: a list as a list, another value of a data type as its fields."""
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


def listed(*elements: object) -> str:
    """Return the text of a list."""
    return f"Cons({elements[0]}, {listed(*elements[1:])})" if elements else "Nil"


def value_of(text: str, definitions: str = "") -> object:
    """Return what an expression evaluates to, after its types have been inferred."""
    mod = parse(f"{definitions} def @main() {{ {text} }}", init_module=Prelude().mod)
    return python(evaluate(infer_module(mod)))


INC = "fn (%a: int32) -> int32 { %a + 1 }"
DOUBLE = "fn (%a: int32) -> int32 { %a * 2 }"
DIGITS = "fn (%a: int32, %b: int32) -> int32 { %a * 10 + %b }"
SOME = listed(1, 2, 3)
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
    (f"@zip({SOME}, {listed('(1, True)', '(2, False)')})", [(1, (1, True)), (2, (2, False))]),
    (f"@rev({SOME})", [3, 2, 1]),
    (f"@map_accuml({RUNNING}, 0, {SOME})", (6, [33, 12, 1])),
    (f"@map_accumr({RUNNING}, 0, {SOME})", (6, [51, 32, 3])),
    (f"@unfoldr({COUNT_DOWN}, 3)", [3, 2, 1]),
    (f"@unfoldl({COUNT_DOWN}, 3)", [1, 2, 3]),
    (f"@tmap({INC}, Rose(1, {listed('Rose(2, Nil)', 'Rose(3, Nil)')}))", (2, [(3, []), (4, [])])),
    (f"@size(Rose(1, {listed('Rose(2, Nil)', 'Rose(3, Nil)')}))", 3),
]


@pytest.mark.parametrize(("text", "value"), RESULTS)
def test_its_functions_compute_what_their_names_say(text: str, value: object) -> None:
    assert value_of(text) == value


def test_it_has_types_and_its_text_comes_back() -> None:
    mod = Prelude().mod
    assert infer_module(mod) is mod
    assert structural_equal(fromtext(mod.astext()), mod)


def test_its_parts_are_attributes() -> None:
    prelude = Prelude()
    assert prelude.get_type("List") == (prelude.l, prelude.cons, prelude.nil)
    assert prelude.get_type("Option") == (prelude.option, prelude.some, prelude.none)
    assert prelude.get_type("Tree") == (prelude.tree, prelude.rose)
    assert prelude.get_ctor("List", "Cons") is prelude.cons
    assert isinstance(prelude.map, GlobalVar)
    assert prelude.map is prelude.get_global_var("map") is prelude.mod.get_global_var("map")
    wanted = "the prelude has no function 'lenght'; did you mean 'length'?"
    with pytest.raises(AttributeError, match=f"^{re.escape(wanted)}$"):
        _ = prelude.lenght


def test_a_module_gets_it_once() -> None:
    mod = parse("def @main(%x: int32) { %x }")
    first = Prelude(mod)
    assert first.mod is mod
    before = mod.functions
    mod.import_from_std("prelude.rly")
    assert Prelude(mod).cons is first.cons
    assert list(mod.functions.values()) == list(before.values())


def test_a_module_that_was_read_with_it_keeps_what_it_has() -> None:
    again = fromtext(Prelude().mod.astext())
    nil = again.get_constructor("List", "Nil")
    assert Prelude(again).nil is nil


def test_a_file_that_the_library_does_not_have_is_told() -> None:
    wanted = "the standard library has no file 'prelude'; it has nat.rly, prelude.rly"
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(wanted)}$"):
        IRModule().import_from_std("prelude")
