"""The pass `xdsl.FromMLIR`, on texts that xDSL reads in one format only."""

import pytest

import apass
from apass.adapters.mlir import MLIRModule
from apass.adapters.xdsl import ADAPTER
from tests.helpers.mlir_modules import NEEDS_MLIR

GLOBAL = """
memref.global "private" @g : memref<4xf32> = dense<1.0>
func.func @f() -> memref<4xf32> {
  %0 = memref.get_global @g : memref<4xf32> loc("kernel.c":1:2)
  return %0 : memref<4xf32>
}
"""
UNKNOWN = """
func.func @f(%a: i32) -> i32 {
  %0 = spirv.IAdd %a, %a : i32
  return %0 : i32
}
"""


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.anyio
async def test_generic_format_is_parsed_after_a_failure() -> None:
    mod = await apass.get_pass("xdsl.FromMLIR")(MLIRModule(GLOBAL))
    assert [op.name for op in mod.body.ops] == ["memref.global", "func.func"]
    assert 'loc("kernel.c":1:2)' in ADAPTER.to_text(mod)


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.anyio
async def test_error_has_both_reasons() -> None:
    with pytest.raises(apass.errors.AdapterError) as caught:
        await apass.get_pass("xdsl.FromMLIR")(MLIRModule(UNKNOWN, "kernel.mlir"))
    first, _, second = str(caught.value).partition("and not in the generic format of mlir-opt: ")
    assert first.startswith("cannot parse kernel.mlir:3:")
    assert second.startswith("cannot parse kernel.mlir in the generic format:")
    assert str(caught.value.__cause__) == first.rstrip("\n")


@pytest.mark.anyio
async def test_error_without_mlir_opt_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_MLIR_OPT", "no-such-program")
    with pytest.raises(apass.errors.AdapterError, match=r"^cannot parse <module>:2:15\n(.|\n)*APASS_MLIR_OPT names"):
        await apass.get_pass("xdsl.FromMLIR")(MLIRModule(GLOBAL))
