"""The structure of MLIR text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.adapters.mlir.structure import declaration, parse_structure
from tests.helpers.mlir_modules import CALLS

PRINTED = """\
#map = affine_map<(d0) -> (d0 + 1)>
module @m attributes {a.b = "}{", c.d} {
  memref.global "private" constant @data : memref<2xi32> = dense<[1, 2]>
  func.func @f(%arg0: tensor<2xf32, #sparse_tensor.encoding<{ map = (d0) -> (d0 : dense) }>>) -> (i32 {x.y}, i32) {
    %0 = "test.op"() ({
    ^bb0:
      "test.end"() : () -> ()
    }) {s = "func.func @no() {"} : () -> i32
    return %0, %0 : i32, i32
  }
  func.func private @declared(i32) -> tensor<2xf32, #x.y<{a}>> attributes {z.w}
  llvm.func internal @"g h"(%arg0: i32) -> i32 attributes {passthrough = ["x"]} {
    llvm.return %arg0 : i32
  } loc("x.c":1:2)
}
"""


def symbols(text: str) -> list[str]:
    return list(parse_structure(text).functions)


def test_functions_are_found_in_printed_module() -> None:
    structure = parse_structure(PRINTED)
    assert [part.name for part in structure.operations] == ["memref.global", "func.func", "func.func", "llvm.func"]
    assert list(structure.functions) == ["f", "g h"]
    assert structure.head.endswith("c.d} {\n")
    assert structure.tail == "}\n"
    assert structure.functions["f"].text.endswith("return %0, %0 : i32, i32\n  }")
    assert structure.functions["f"].text[structure.functions["f"].body :].startswith("{\n    %0")


def test_functions_are_found_in_written_module() -> None:
    structure = parse_structure(CALLS)
    assert (list(structure.functions), structure.tail) == (["f", "g"], "")
    assert structure.head.startswith("// Two functions")


def test_declaration_keeps_signature_and_becomes_private() -> None:
    text = "func.func public @f(%a: i32 {x.y}) -> (i32, i32)\n    attributes {a.b} {\n  return %a, %a : i32, i32\n}"
    function = parse_structure(text).functions["f"]
    assert declaration(function) == "func.func private @f(%a: i32 {x.y}) -> (i32, i32)\n    attributes {a.b}"


@pytest.mark.parametrize(
    "text",
    [
        "func.func @f() { return } func.func @g() { return }",
        "func.func @f() {\n return\n}\nfunc.func @f() {\n return\n}",
        "module {\n  func.func @f() {\n    return\n  }\n} func.func @g() {\n  return\n}",
        "module {\n  func.func @f() {\n    return\n  }\n",
        "func.func @f() {\n  return\n}}",
        "func.func @f() {\n  return)\n}",
        '"builtin.module"() ({\n  "func.func"() <{sym_name = "f"}> ({\n  }) : () -> ()\n}) : () -> ()',
        "module {}\nmodule {\n  func.func @f() {\n    return\n  }\n}",
        "module attributes [a] {\n}",
        "not MLIR",
        "",
    ],
)
def test_uncertain_text_has_no_functions(text: str) -> None:
    assert symbols(text) == []
    assert parse_structure(text).text() == text


@pytest.mark.parametrize(
    "text",
    [
        "func.func @f() { return } // func.func @g() { return }",
        "builtin.module {\n// a\nfunc.func @f() { return }\n// }\n}",
        "module @m {\nfunc.func @f()\n  attributes {a}\n{ return }\n} loc(unknown)\n#loc = loc(unknown)",
        'func.func @f() { "a.b"() {c = "\\"{"} : () -> () return }\n{-# resources: {} #-}',
        "%0 = a.b\nfunc.func @f() { return }\n#a = 1",
        "module{func.func @f() {\n return\n}}",
    ],
)
def test_comments_strings_and_metadata_are_skipped(text: str) -> None:
    assert symbols(text) == ["f"]
    assert parse_structure(text).text() == text


@given(st.text(alphabet='(){}[]<>"\\/\n #!%@.-=>abcfunmodle:', max_size=80))
def test_parts_join_to_any_text(text: str) -> None:
    assert parse_structure(text).text() == text


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,5}", fullmatch=True)
LINES = st.sampled_from(
    [
        '"t.o"() {s = "} func.func @x() {"} : () -> ()',
        '"t.r"() ({\n"t.e"() : () -> ()\n}) : () -> ()',
        "// a comment with {\n",
        "^bb1:\n",
        "%0 = t.o <{a = [1, 2]}> : i32",
    ]
)


@pytest.mark.slow
@given(
    st.lists(st.tuples(NAMES, st.lists(LINES, max_size=4), st.booleans()), unique_by=lambda item: item[0], max_size=5),
    st.booleans(),
)
def test_generated_functions_are_found(functions: list[tuple[str, list[str], bool]], is_explicit: bool) -> None:
    texts = [
        f"func.func private @{name}(i32)" if is_declared else "\n".join([f"func.func @{name}() {{", *lines, "}"])
        for name, lines, is_declared in functions
    ]
    text = "\n".join([*(["module {"] if is_explicit else []), *texts, *(["}"] if is_explicit else [])])
    structure = parse_structure(text)
    assert list(structure.functions) == [name for name, _, is_declared in functions if not is_declared]
    assert [part.text for part in structure.operations] == texts
    assert structure.text() == text
