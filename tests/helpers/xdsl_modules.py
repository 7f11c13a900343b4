"""Modules of xDSL for tests."""

from typing import Final

from xdsl.dialects.builtin import ModuleOp

from apass.adapters.xdsl.text import parse_module

__all__ = ["CALLS", "SIMPLE", "SUMS", "UNKNOWN", "module", "rename_values", "sums"]

SUMS: Final = """\
func.func @sums(%a: i32, %b: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %x = arith.addi %a, %zero : i32
  %y = arith.addi %x, %b : i32
  %z = arith.addi %x, %b : i32
  %unused = arith.muli %y, %z : i32
  %sum = arith.addi %y, %z : i32
  func.return %sum : i32
}
"""
"""A function that canonicalization and CSE make smaller."""

SIMPLE: Final = """\
builtin.module {
  func.func @sums(%a: i32, %b: i32) -> i32 {
    %y = arith.addi %a, %b : i32
    %sum = arith.addi %y, %y : i32
    func.return %sum : i32
  }
}
"""
"""The result of `xdsl.Default` for `SUMS`."""

CALLS: Final = """\
"memref.global"() <{
  sym_name = "data", type = memref<2xi32>, initial_value = dense<[1, 2]> : tensor<2xi32>, sym_visibility = "private"
}> : () -> ()
func.func private @external(i32) -> i32
func.func @caller(%a: i32, %b: i32) -> i32 attributes {mark} {
  %called = func.call @callee(%a) : (i32) -> i32
  %data = memref.get_global @data : memref<2xi32>
  %sum = arith.addi %a, %called : i32 loc("kernel.c":1:2)
  %same = arith.cmpi eq, %sum, %a : i32
  cf.cond_br %same, ^then(%sum : i32), ^else
^then(%x : i32):
  func.return %x : i32
^else:
  func.return %sum : i32
}
func.func @callee(%a: i32) -> i32 attributes {SkipOptimization} {
  %called = func.call @external(%a) : (i32) -> i32
  %true = arith.constant true
  %result = scf.if %true -> (i32) {
    scf.yield %called : i32
  } else {
    scf.yield %a : i32
  }
  func.return %result : i32
}
builtin.module @inner {
  func.func @caller() {
    func.return
  }
}
%value = "test.op"() : () -> i32
"test.op"(%value) : (i32) -> ()
"""
"""Functions that refer to others, with locations, blocks, and operations outside of functions."""

UNKNOWN: Final = """\
"foo.func"() ({
^entry(%a: !foo.type<3>):
  "foo.return"(%a) {key = #foo.attribute<1>} : (!foo.type<3>) -> ()
}) {sym_name = "f"} : () -> ()
%data = "test.op"() {value = dense_resource<blob> : tensor<1xi32>} : () -> i32
{-#
  dialect_resources: { builtin: { blob: "0x0400000001000000" } }
#-}
"""
"""Operations of an unknown dialect, and a resource."""


def module(text: str, *, allow_unregistered: bool = False) -> ModuleOp:
    """Return the module that a text describes."""
    return parse_module(text, "test.mlir", allow_unregistered=allow_unregistered)


def sums(count: int) -> ModuleOp:
    """Return a module of several functions that can be simplified."""
    return module("".join(SUMS.replace("@sums", f"@sums{index}") for index in range(count)))


def rename_values(mod: ModuleOp) -> None:
    """Change the names of all values in place."""
    for block in mod.walk_blocks():
        for value in (*block.args, *(result for op in block.ops for result in op.results)):
            value.name_hint = "renamed"
