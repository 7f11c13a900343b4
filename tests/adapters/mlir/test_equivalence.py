"""Proofs that functions of MLIR are equivalent, by the encoding of xDSL."""

import pytest

from apass.adapters.mlir import MLIRModule
from apass.adapters.mlir.equivalence import prove_equal
from apass.plugins import Proof
from tests.helpers.mlir_modules import NEEDS_MLIR

pytestmark = [NEEDS_MLIR, pytest.mark.process, pytest.mark.anyio]


async def test_proofs_find_what_inputs_do_not_show() -> None:
    # The constants of the sum wrap, so that the flag of the result is wrong (llvm/llvm-project issue 140328).
    before = """func.func @f(%x: i2) -> i2 {
  %m1 = arith.constant -1 : i2
  %m2 = arith.constant -2 : i2
  %t = arith.addi %x, %m2 overflow<nsw> : i2
  %r = arith.addi %t, %m1 overflow<nsw> : i2
  return %r : i2
}
"""
    after = """func.func @f(%x: i2) -> i2 {
  %c = arith.constant 1 : i2
  %r = arith.addi %x, %c overflow<nsw> : i2
  return %r : i2
}
"""
    proof = await prove_equal(MLIRModule(before), MLIRModule(after))
    assert proof.equal is False
    assert "function 'f' returns (" in proof.text
    assert (await prove_equal(MLIRModule(before), MLIRModule(before))) == Proof(True, "proved for all arguments")


async def test_unreadable_modules_have_no_proof() -> None:
    proof = await prove_equal(MLIRModule("func.func @f() {"), MLIRModule("func.func @f() { return }"))
    assert proof.equal is None
    text = 'func.func @f() { "gpu.barrier"() : () -> () return }'
    assert (await prove_equal(MLIRModule(text), MLIRModule(text))).equal is None
