"""The files of the command lines in documentation."""

from collections.abc import Mapping
from typing import Final

__all__ = ["FILES", "LLVM", "MLIR", "XDSL"]

LLVM: Final = """
source_filename = "m.c"
target triple = "x86_64-unknown-linux-gnu"
define i32 @square(i32 %x) {
  %slot = alloca i32
  store i32 %x, ptr %slot
  %a = load i32, ptr %slot
  %b = mul i32 %a, %x
  ret i32 %b
}
define i32 @loads(ptr %p) {
  %a = load i32, ptr %p
  %b = load i32, ptr %p
  %c = call i32 @square(i32 %a)
  %d = add i32 %b, %c
  ret i32 %d
}
"""

MLIR: Final = """
func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  %b = arith.addi %x, %x : i32
  %c = arith.addi %a, %b : i32
  %y = call @g(%c) : (i32) -> i32
  return %y : i32
}
func.func private @g(%x: i32) -> i32 {
  %two = arith.constant 2 : i32
  %y = arith.muli %x, %two : i32
  return %y : i32
}
func.func @loop(%m: memref<64xf32>, %v: f32) {
  affine.for %i = 0 to 64 {
    affine.store %v, %m[%i] : memref<64xf32>
  }
  return
}
"""

XDSL: Final = """
func.func @f(%a: i32, %n: index) -> i32 {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : index
  %x = arith.addi %a, %zero : i32
  %y = arith.addi %x, %a : i32
  %z = arith.addi %x, %a : i32
  %sum = arith.muli %y, %z : i32
  "scf.parallel"(%one, %one, %n, %n, %one, %one) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
  ^bb0(%i: index, %j: index):
    "test.op"(%i, %j) : (index, index) -> ()
    scf.reduce
  }) : (index, index, index, index, index, index) -> ()
  func.return %sum : i32
}
"""

FILES: Final[Mapping[str, str]] = {
    "m.ll": LLVM,
    "one.ll": LLVM.partition("define i32 @loads")[0],
    "m.c": "static int square(int x) { return x * x; }\n"
    "int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += square(i); return s; }\n",
    "plugin.c": "#include <stdint.h>\n#include <stdio.h>\n"
    "struct Info { uint32_t api; const char *name, *version; void (*callbacks)(void *); void *more; };\n"
    'static void callbacks(void *builder) { (void)builder; fputs("plugin is loaded\\n", stderr); }\n'
    "struct Info llvmGetPassPluginInfo(void) {\n"
    '  struct Info info = {2, "sample", "1", callbacks, 0};\n  return info;\n}\n',
    "show.sh": '#!/bin/sh\necho "$(grep -c load "$1") loads"\n',
    "lost.sh": '#!/bin/sh\ngrep -q alloca "$1" && ! ./tools/opt -S -passes=sroa "$1" | grep -q alloca\n',
    "called.sh": '#!/bin/sh\ngrep -q call "$1" && ! ./tools/mlir-opt --inline "$1" | grep -q call && exit 1\nexit 0\n',
    "unregistered.mlir": '"my.op"() : () -> ()\n',
    "split.mlir": "func.func @f() { return }\n// -----\nfunc.func @g() { return }\n",
    "wrong.mlir": "func.func @f() -> i32 {\n  %x = arith.constant 1 : i64\n  func.return %x : i64\n}\n",
    "unknown.mlir": "func.func @f() {\n  oops\n}\n",
}
"""The files of the commands, beside the module of each page."""
