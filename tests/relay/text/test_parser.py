"""`parse` infers types, as in TVM, and reports type errors with their location."""

from collections.abc import Callable

import pytest

import apass
from apass import relay
from apass.relay.parser import fromtext, parse, parse_expr
from apass.relay.structural.equality import assert_structural_equal, structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import TensorType
from apass.relay.type_inference.infer import infer_module

PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float32]) {
  let %unused = 1f;
  let %y = @double(%x);
  add(%y, 1f)
}
def @double(%x: Tensor[(2), float32]) { add(%x, %x) }
"""


@pytest.mark.parametrize("read", [parse, fromtext])
def test_parsed_module_has_types(read: Callable[..., relay.IRModule]) -> None:
    mod = read(PROGRAM)
    assert mod["main"].ret_type == mod["main"].body.checked_type == TensorType((2,), "float32")
    assert_structural_equal(mod, infer_module(read_module(PROGRAM)))
    assert infer_module(mod) is mod


def test_parsed_module_equals_result_of_pass() -> None:
    expected = PROGRAM.replace("  let %unused = 1f;\n", "")
    result = apass.run(relay.transform.DeadCodeElimination(), parse(PROGRAM))
    assert_structural_equal(result, parse(expected))
    assert not structural_equal(result, read_module(expected))


def test_text_round_trip_keeps_types() -> None:
    mod = parse(PROGRAM)
    again = parse(mod.astext())
    assert (again.astext(), structural_equal(again, mod)) == (mod.astext(), True)


def test_type_arguments_are_inferred_again() -> None:
    mod = parse("def @same[A](%x: A) -> A { %x } def @main() { @same(1) }")
    assert "@same(1 /* ty=int32 */) /* ty=int32 */" in mod.astext()
    assert_structural_equal(parse(mod.astext()), mod)


@pytest.mark.parametrize("read", [parse, fromtext])
def test_type_error_shows_location(read: Callable[..., relay.IRModule]) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: int32) {\n  (%x, 1).2\n}'
    with pytest.raises(relay.TypeInferenceError) as caught:
        read(text, "bad.relay")
    assert isinstance(caught.value, apass.errors.DiagnosticError)
    assert " --> bad.relay:3:3\n" in str(caught.value)


def test_functions_of_init_module_keep_types() -> None:
    library = parse("def @inc(%x: int32) { add(%x, 1) }")
    mod = parse("def @main(%x: int32) { @inc(%x) }", init_module=library)
    assert str(mod["main"].ret_type) == "int32"
    assert mod["inc"] is library["inc"]


def test_parse_expr_does_not_infer_types() -> None:
    assert str(parse_expr("free_var %x: int32; add(%x, 1)")) == "free_var %x: int32;\nadd(%x, 1)"
