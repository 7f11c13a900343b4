"""The MLIR adapter: functions, texts, verification and bytecode."""

import pytest

import apass
from apass.adapters.mlir import ADAPTER, MLIRFunction, MLIRModule, module_from_bytes, module_to_bytecode
from apass.testing import check_adapter
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, many_functions


def test_adapter_is_registered_for_modules() -> None:
    assert apass.adapter_for(MLIRModule("")) is ADAPTER


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.slow
def test_adapter_obeys_the_laws() -> None:
    other = MLIRModule(
        "module @m {\n  func.func @f(%a: i32) -> i32 attributes {SkipOptimization} {\n    return %a : i32\n  }\n}\n"
    )
    check_adapter(ADAPTER, {"calls": MLIRModule(CALLS), "printed": other, "empty": MLIRModule("module {\n}\n")})


def test_replace_changes_one_function() -> None:
    mod = MLIRModule(CALLS)
    func = MLIRFunction("g", "func.func @g(%x: i32) -> i32 {\n  return %x : i32\n}")
    result = ADAPTER.replace(mod, {"g": func})
    assert ADAPTER.get(result, "g") == func
    assert ADAPTER.get(result, "f") == ADAPTER.get(mod, "f")
    assert result.text.startswith("// Two functions")
    assert mod.text == CALLS
    with pytest.raises(apass.errors.AdapterError, match="the update of function 'f' is named 'g'; keep the name"):
        ADAPTER.replace(mod, {"f": func})


@pytest.mark.parametrize(
    ("mark", "skips"),
    [
        ("SkipOptimization", True),
        ("a, SkipOptimization = 1 : i32, b", True),
        ('"SkipOptimization" = true', True),
        ("SkipOptimization = false", False),
        ("SkipOptimization = 0 : i32", False),
        ("a", False),
        ('a = "{SkipOptimization}", b = @SkipOptimization', False),
    ],
)
def test_skip_mark_is_an_attribute(mark: str, skips: bool) -> None:
    mod = MLIRModule(
        f'func.func @f() attributes {{{mark}}} {{\n  "t.o"() {{SkipOptimization}} : () -> ()\n  return\n}}'
    )
    assert ADAPTER.skips(ADAPTER.get(mod, "f")) is skips


@NEEDS_MLIR
@pytest.mark.process
def test_verify_names_the_line() -> None:
    ADAPTER.verify(MLIRModule(CALLS))
    with pytest.raises(
        apass.errors.VerifyError, match=r"not a valid MLIR module: mlir-opt.*: .*\n  at model.mlir:2:3\n  oops"
    ):
        ADAPTER.verify(MLIRModule("func.func @f() {\n  oops\n}", "model.mlir"))


@NEEDS_MLIR
@pytest.mark.process
def test_bytecode_is_read_and_written() -> None:
    data = module_to_bytecode(many_functions(2))
    assert data.startswith(b"ML\xefR")
    assert list(module_from_bytes(data).functions) == ["f0", "f1"]
    with pytest.raises(apass.errors.AdapterError):
        module_from_bytes(data[:40], "broken.mlirbc")


def test_other_bytes_are_rejected() -> None:
    with pytest.raises(apass.errors.AdapterError, match=r"m\.mlir is neither MLIR text in UTF-8 nor MLIR bytecode"):
        module_from_bytes(b"\xff\xfe", "m.mlir")
