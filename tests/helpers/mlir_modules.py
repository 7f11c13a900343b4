"""MLIR modules, and the program `mlir-opt`, for tests."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from apass.adapters.mlir import MLIRModule
from apass.adapters.programs import MLIR_OPT
from apass.errors import MissingExtraError

__all__ = ["CALLS", "NEEDS_MLIR", "RESOURCES", "many_functions", "mlir_opt", "program", "script"]


def program() -> Path | None:
    """Return the path of `mlir-opt`, or None."""
    try:
        return MLIR_OPT.find()
    except MissingExtraError:
        return None


NEEDS_MLIR = pytest.mark.skipif(program() is None, reason="mlir-opt is not installed")
"""Skips tests where there is no `mlir-opt`."""

CALLS = """\
// Two functions, one of which calls the other.
func.func private @extern(i32) -> i32

func.func @f(%x: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %sum = arith.addi %x, %zero : i32
  %y = call @g(%sum) : (i32) -> i32
  return %y : i32
}

func.func @g(%x: i32) -> i32 { return %x : i32 }
"""
"""A module as a user writes it."""

RESOURCES = """\
#map = affine_map<(d0) -> (d0 + 1)>
func.func @kept(%a: index) -> index attributes {SkipOptimization} {
  %x = affine.apply #map(%a)
  %y = affine.apply #map(%a)
  %z = arith.addi %x, %y : index
  return %z : index
}
func.func @weights(%a: index) -> (index, tensor<2xi32>) {
  %x = affine.apply #map(%a)
  %y = affine.apply #map(%a)
  %z = arith.addi %x, %y : index
  %w = arith.constant dense_resource<weights> : tensor<2xi32>
  return %z, %w : index, tensor<2xi32>
}
{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000100000002000000"
    }
  }
#-}
"""
"""Two functions with an alias, one of them skipped, and the data of a tensor."""


def many_functions(count: int, operations: int = 20) -> MLIRModule:
    """Return a module of functions that add constants, each with a map of its own."""
    lines: list[str] = []
    for index in range(count):
        lines.append(f"func.func @f{index}(%a: i32, %m: memref<?xf32, affine_map<(d0) -> (d0 + {index})>>) -> i32 {{")
        last = "%a"
        for number in range(operations):
            lines.append(f"  %c{number} = arith.constant {number} : i32")
            lines.append(f"  %v{number} = arith.addi {last}, %c{number} : i32")
            last = f"%v{number}"
        lines.append(f"  return {last} : i32\n}}")
    return MLIRModule("\n".join(lines) + "\n")


@cache
def mlir_opt(text: str, pipeline: str, *arguments: str) -> str:
    """Return what `mlir-opt` prints for a module, by default in local scope."""
    path = program()
    assert path is not None
    command = [str(path), f"--pass-pipeline={pipeline}", *(arguments or ["--mlir-print-local-scope"])]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def script(text: str, path: Path) -> Path:
    """Write an executable shell script, and return its path."""
    path.write_text(f"#!{shutil.which('sh')}\n{text}\n")
    path.chmod(0o755)
    return path
