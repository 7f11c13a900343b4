"""Parts that `reduce` can remove."""

import pytest

from apass.adapters.mlir import ADAPTER, MLIRModule
from apass.util.delta_debugging import Shrinking
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR

LOOP = """\
func.func @f(%n: index, %x: i32) -> i32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %sum = scf.for %i = %zero to %n step %one iter_args(%y = %x) -> i32 {
    %z = arith.addi %y, %x : i32
    scf.yield %z : i32
  }
  %unused:2 = arith.addui_extended %sum, %x : i32, i1
  return %sum : i32
}
"""


def shrinkings(text: str) -> dict[str, Shrinking[MLIRModule]]:
    return {shrinking.what: shrinking for shrinking in ADAPTER.shrinkings(MLIRModule(text))}


def test_operations_and_bodies_are_removed() -> None:
    found = shrinkings(CALLS)
    operations, bodies = found["operations of the module"], found["bodies of functions"]
    assert (operations.count, bodies.count) == (3, 2)
    assert list(operations.without(frozenset({0, 1})).functions) == ["g"]
    result = bodies.without(frozenset({0}))
    assert list(result.functions) == ["g"]
    assert "func.func private @f(%x: i32) -> i32\n" in result.text


def test_invalid_module_loses_only_top_level_parts() -> None:
    found = shrinkings("func.func @f() {\n  oops\n}\nfunc.func @g() { return }")
    assert {what: shrinking.count for what, shrinking in found.items()} == {
        "operations of the module": 2,
        "bodies of functions": 2,
    }


@NEEDS_MLIR
@pytest.mark.process
def test_operations_in_functions_are_removed() -> None:
    inner = shrinkings(LOOP)["operations in functions"]
    # Constants, the loop, its addition, and the last addition; no terminator.
    assert inner.count == 5
    text = inner.without(frozenset({2, 4})).text
    assert "scf.for" not in text
    assert "arith.addui_extended" not in text
    assert "%0 = builtin.unrealized_conversion_cast to i32\n    return %0 : i32" in text
    nested = inner.without(frozenset({3})).text
    assert "arith.addi " not in nested
    assert "scf.yield" in nested
    # A placeholder that is used is not removable again.
    assert shrinkings(inner.without(frozenset(range(5))).text)["operations in functions"].count == 0
    ADAPTER.verify(MLIRModule(nested))
