"""The space of pipelines for MLIR. Each pipeline keeps outputs."""

import pytest

import apass
from apass.adapters.mlir import ADAPTER, MLIRModule
from apass.adapters.mlir.outputs import compare_outputs
from apass.adapters.mlir.plugin import count_operations
from apass.adapters.mlir.spaces import passes
from apass.search import search
from tests.helpers.amounts import some
from tests.helpers.mlir_modules import NEEDS_MLIR
from tests.helpers.rows import row
from tests.helpers.spaces import alternatives, random_pipelines

pytestmark = [NEEDS_MLIR, pytest.mark.process, pytest.mark.anyio]

LOOPS = """
func.func private @square(%x: f32) -> f32 {
  %y = arith.mulf %x, %x : f32
  return %y : f32
}
func.func @affine(%x: f32) -> f32 {
  %m = memref.alloca() : memref<8xf32>
  %n = memref.alloca() : memref<8xf32>
  %zero = arith.constant 0.0 : f32
  affine.for %i = 0 to 8 {
    %y = arith.mulf %x, %x : f32
    affine.store %y, %m[%i] : memref<8xf32>
  }
  affine.for %i = 0 to 8 {
    %a = affine.load %m[%i] : memref<8xf32>
    %b = arith.addf %a, %x : f32
    affine.store %b, %n[%i] : memref<8xf32>
  }
  %s = affine.for %i = 0 to 8 iter_args(%t = %zero) -> f32 {
    %a = affine.load %n[%i] : memref<8xf32>
    %b = arith.addf %t, %a : f32
    affine.yield %b : f32
  }
  return %s : f32
}
func.func @scf(%k: i32, %x: f32, %flag: i1) -> (i32, f32) {
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : index
  %n = arith.constant 13 : index
  %dead = arith.addi %k, %none : i32
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%a = %k, %b = %x) -> (i32, f32) {
    %q = func.call @square(%x) : (f32) -> f32
    %v = arith.index_cast %i : index to i32
    %w = arith.addi %a, %v : i32
    %p = scf.if %flag -> f32 {
      %o = arith.addf %b, %q : f32
      scf.yield %o : f32
    } else {
      scf.yield %b : f32
    }
    scf.yield %w, %p : i32, f32
  }
  %slot = memref.alloca() : memref<f32>
  memref.store %r#1, %slot[] : memref<f32>
  %l = memref.load %slot[] : memref<f32>
  return %r#0, %l : i32, f32
}
"""
"""Loops of two dialects, memory, and a call."""


async def check(pipeline: str) -> None:
    mod = MLIRModule(LOOPS)
    result = await apass.parse_pipeline(pipeline)(mod)
    ADAPTER.verify(result)
    comparison = await compare_outputs(mod, result)
    # `None`: there is no mlir-runner.
    assert not comparison.changed, comparison.text


@pytest.mark.slow
async def test_pipelines_keep_outputs() -> None:
    for pipeline in [*alternatives(passes()), *some(random_pipelines(passes(), 30))]:
        with row(pipeline):
            await check(pipeline)


async def test_search_finds_a_smaller_module() -> None:
    mod = MLIRModule(LOOPS)
    result = await search([mod], passes(), lambda candidate, _: count_operations(candidate.module), budget=20)
    assert result.failed == 0
    assert result.modules[0].values["value"] < count_operations(mod)
