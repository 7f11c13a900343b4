"""Parsing as TVM does it: a module comes with its types, or with an error that shows where they do not fit."""

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
def test_a_module_that_is_parsed_has_its_types(read: Callable[..., relay.IRModule]) -> None:
    mod = read(PROGRAM)
    assert mod["main"].ret_type == mod["main"].body.checked_type == TensorType((2,), "float32")
    assert_structural_equal(mod, infer_module(read_module(PROGRAM)))
    assert infer_module(mod) is mod


def test_a_text_without_types_is_that_of_what_a_pass_makes() -> None:
    expected = PROGRAM.replace("  let %unused = 1f;\n", "")
    made = apass.run(relay.transform.DeadCodeElimination(), parse(PROGRAM))
    assert_structural_equal(made, parse(expected))
    assert not structural_equal(made, read_module(expected))


def test_what_is_written_is_read_back_with_the_same_types() -> None:
    mod = parse(PROGRAM)
    again = parse(mod.astext())
    assert (again.astext(), structural_equal(again, mod)) == (mod.astext(), True)


def test_type_arguments_are_inferred_again() -> None:
    mod = parse("def @same[A](%x: A) -> A { %x } def @main() { @same(1) }")
    assert "@same(1 /* ty=int32 */) /* ty=int32 */" in mod.astext()
    assert_structural_equal(parse(mod.astext()), mod)


@pytest.mark.parametrize("read", [parse, fromtext])
def test_types_that_do_not_fit_are_told_with_their_place(read: Callable[..., relay.IRModule]) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: int32) {\n  (%x, 1).2\n}'
    with pytest.raises(relay.TypeInferenceError) as caught:
        read(text, "bad.relay")
    assert isinstance(caught.value, apass.DiagnosticError)
    assert " --> bad.relay:3:3\n" in str(caught.value)


def test_functions_of_another_module_have_their_types_in_it() -> None:
    library = parse("def @inc(%x: int32) { add(%x, 1) }")
    mod = parse("def @main(%x: int32) { @inc(%x) }", init_module=library)
    assert str(mod["main"].ret_type) == "int32"
    assert mod["inc"] is library["inc"]


def test_an_expression_has_no_types_yet() -> None:
    assert str(parse_expr("free_var %x: int32; add(%x, 1)")) == "free_var %x: int32;\nadd(%x, 1)"
