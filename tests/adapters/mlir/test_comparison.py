"""Whether two texts are the same program."""

import pytest

from apass.adapters.mlir.comparison import same_program
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, mlir_opt

BODY = "func.func @f(%x: i32, %y: i32) -> i32 {\n  %s = arith.subi %x, %y : i32\n  return %s : i32\n}"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("%x", "%renamed", True),
        ("  return %s : i32", "return %s// done\n: i32", True),
        ("arith.subi %x, %y", "arith.subi %y, %x", False),
        ("arith.subi", "arith.addi", False),
        ("@f", "@g", False),
        ("arith.subi %x, %y", "arith.subi %x, %x", False),
        ("func.func", "module attributes {a} {\nfunc.func", False),
    ],
)
def test_names_and_layout_do_not_matter(before: str, after: str, is_same: bool) -> None:
    other = BODY.replace(before, after) + ("\n}" if "module" in after else "")
    assert same_program(BODY, other) is is_same
    assert same_program(other, BODY) is is_same


@NEEDS_MLIR
@pytest.mark.process
def test_printed_module_is_the_same_program() -> None:
    assert same_program(CALLS, mlir_opt(CALLS, "builtin.module()"))
    assert not same_program(CALLS, mlir_opt(CALLS, "builtin.module(canonicalize)"))
