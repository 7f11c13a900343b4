"""The LLVM adapter: functions, texts, files and values."""

import pickle
from importlib import import_module
from typing import Any

import pytest

import apass
from apass.adapters.llvm import ADAPTER, Function, Module
from apass.adapters.llvm.library import llvm
from apass.testing import check_adapter
from tests.helpers.llvm_modules import TEXTS, module


def test_adapter_is_found_for_modules() -> None:
    adapter: apass.IRAdapter[Module, Function] = ADAPTER
    assert apass.adapter_for(module("sum")) is adapter


def test_adapter_keeps_the_laws() -> None:
    check_adapter(ADAPTER, {name: module(name) for name in TEXTS})


def test_functions_have_bodies() -> None:
    mod = module("symbols")
    assert list(mod.functions) == ["shared", "entry", "main function", "kept", "marked"]
    assert [name for name, func in mod.functions.items() if ADAPTER.skips(func)] == ["kept", "marked"]


@pytest.mark.parametrize("name", TEXTS)
def test_module_restores_text_bitcode_and_pickle(name: str) -> None:
    mod = module(name)
    assert Module.from_bitcode(mod.bitcode).text == Module.parse(mod.text).text == mod.text
    assert pickle.loads(pickle.dumps(mod)).text == mod.text
    assert ADAPTER.loads(ADAPTER.dumps(mod)).text == mod.text


def test_results_of_passes_are_restored_exactly() -> None:
    text = (
        "declare float @llvm.fabs.f32(float)\ndefine float @f(float %x) {\n  %y = call float @llvm.fabs.f32(float %x)"
    )
    result = apass.run(apass.get_pass("llvm.O1"), Module.parse(f"{text}\n  ret float %y\n}}\n"))
    # LLVM itself resets what the pass wrote into the attributes of the intrinsic.
    assert Module.parse(result.text).text != result.text
    assert ADAPTER.loads(ADAPTER.dumps(result)).text == result.text
    assert pickle.loads(pickle.dumps(result)).text == result.text


@pytest.mark.parametrize(
    ("attributes", "is_skipped"),
    [
        ("optnone noinline", True),
        ('"SkipOptimization"', True),
        ('"SkipOptimization"="1"', True),
        ('"SkipOptimization"="0"', False),
        ('"SkipOptimization"="False"', False),
        ('"other"="SkipOptimization" "optnone-not"', False),
    ],
)
def test_functions_are_skipped(attributes: str, is_skipped: bool) -> None:
    mod = Module.parse(f"define void @f() {attributes} {{\n  ret void\n}}\n")
    assert ADAPTER.skips(mod.functions["f"]) is is_skipped


def test_module_converts_from_and_to_llvmlite() -> None:
    builder: Any = import_module("llvmlite.ir")
    source = builder.Module("example")
    function = builder.Function(source, builder.FunctionType(builder.IntType(32), []), "f")
    builder.IRBuilder(function.append_basic_block()).ret(builder.Constant(builder.IntType(32), 3))
    mod = Module.from_llvm(source)
    ref = mod.to_llvm()
    assert (list(mod.functions), Module.from_llvm(ref).text) == (["f"], mod.text)
    ref.get_function("f").linkage = "internal"
    assert "internal" not in mod.text
    assert isinstance(ref, llvm.ModuleRef)


def test_passes_name_the_way_from_llvmlite() -> None:
    ref = module("sum").to_llvm()
    with pytest.raises(apass.errors.AdapterError, match=r"Module\.from_llvm\(mod\)"):
        apass.run(apass.get_pass("llvm.O1"), ref)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("define i32 @f() {\n  ret i32 %x\n}", r"line 2, column 11: use of undefined value '%x': ret i32 %x"),
        ("x", "line 1, column 1: expected top-level entity: x"),
        ('target datalayout = "x"', "line 1, column 21: "),
    ],
)
def test_parse_errors_have_line_and_column(text: str, message: str) -> None:
    with pytest.raises(apass.errors.AdapterError, match=message):
        Module.parse(text)


def test_invalid_modules_raise_verify_errors() -> None:
    with pytest.raises(apass.errors.VerifyError, match="Instruction does not dominate all uses"):
        Module.parse("define i32 @f() {\n %a = add i32 %b, 1\n %b = add i32 %a, 1\n ret i32 %b\n}")


def test_unknown_triples_are_errors() -> None:
    mod = Module.parse('target triple = "foo-bar"\ndefine void @f() {\n ret void\n}')
    for name in ("llvm.O2", "llvm.sroa"):
        with pytest.raises(apass.errors.AdapterError, match="no target for the triple 'foo-bar'"):
            apass.run(apass.get_pass(name), mod)


def test_function_with_another_definition_is_inserted() -> None:
    mod = module("sum")
    func = mod.functions["twice"]
    changed = func.with_definition(func.definition.replace("add i64 %s, 0", "add i64 %s, 5"))
    result = ADAPTER.replace(mod, {"twice": changed})
    assert "add i64 %s, 5" in result.text
    assert result.functions["sum"].text == mod.functions["sum"].text
    with pytest.raises(
        apass.errors.AdapterError, match="expected the text of the definition of @twice, got that of @sum"
    ):
        func.with_definition(mod.functions["sum"].definition)
