"""The passes `llvm.*`, compared with llvmlite by itself."""

from typing import Any

import pytest

import apass
from apass.adapters.llvm import ADAPTER, Module
from apass.adapters.llvm.library import llvm
from apass.adapters.llvm.passes.llvmlite_passes import PIPELINES
from apass.adapters.llvm.passes.table import LEFT_OUT, PassEntry, function_passes, module_passes
from tests.helpers.llvm_modules import TEXTS, UNNAMED, by_function, by_itself, module
from tests.helpers.rows import row

ALL = {**function_passes(), **module_passes()}
SKIPPED = frozenset({"kept", "marked"})


def entry_of(name: str) -> PassEntry:
    return ALL[name]


@pytest.mark.parametrize("text", TEXTS)
def test_passes_give_the_text_of_llvmlite(text: str) -> None:
    for name in ALL:
        with row(name):
            mod = module(text)
            result = apass.run(apass.get_pass(f"llvm.{name}"), mod)
            assert result.text == by_itself(mod.text, entry_of(name), skipped=SKIPPED)
            ADAPTER.verify(result)


@pytest.mark.parametrize("text", TEXTS)
def test_single_functions_give_the_text_of_llvmlite(text: str) -> None:
    for name in function_passes():
        with row(name):
            mod = module(text)
            result = apass.run(apass.get_pass(f"llvm.{name}"), mod, context=by_function())
            assert result.text == by_itself(mod.text, entry_of(name), skipped=SKIPPED)


@pytest.mark.parametrize("text", TEXTS)
def test_simplification_gives_one_text(text: str) -> None:
    mod, pass_ = module(text), apass.get_pass("llvm.function-simplification")
    assert apass.run(pass_, mod).text == apass.run(pass_, module(text), context=by_function()).text


@pytest.mark.parametrize("text", TEXTS)
def test_pipelines_give_the_text_of_llvmlite(text: str) -> None:
    for name in PIPELINES:
        with row(name):
            mod = module(text)
            result = apass.run(apass.get_pass(f"llvm.{name}"), mod)
            assert result.text == by_itself(mod.text, name)
            ADAPTER.verify(result)


def test_each_method_of_llvmlite_is_known() -> None:
    managers: tuple[Any, ...] = (llvm.ModulePassManager, llvm.FunctionPassManager)
    methods = {name for manager in managers for name in dir(manager) if name.startswith("add_")}
    assert methods == {entry.method for entry in ALL.values()} | (methods & set(LEFT_OUT))


def test_pass_that_changes_nothing_returns_its_input() -> None:
    mod = Module.parse("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
    for name in ("instcombine", "globaldce", "verify", "O0"):
        assert apass.run(apass.get_pass(f"llvm.{name}"), mod) is mod
        assert apass.run(apass.get_pass(f"llvm.{name}"), mod, context=by_function()) is mod


@pytest.mark.parametrize("level", ["Os", "Oz"])
def test_functions_for_debugging_keep_their_attributes(level: str) -> None:
    mod = Module.parse("define i32 @f(i32 %x) optdebug {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n")
    result = apass.run(f"llvm.{level},llvm.verify", mod)
    assert "optsize" not in result.text


def test_functions_with_unusual_names_are_optimized() -> None:
    mod = Module.parse(UNNAMED)
    assert list(mod.functions) == ["0", '"0"', r"a\22b"]
    for context in (None, by_function()):
        with row(context):
            assert "mul" not in apass.run("llvm.instcombine", mod, context=context).text


def test_default_pipeline_follows_the_level_of_the_context() -> None:
    mod = module("sum")
    for level in range(5):
        with row(level):
            result = apass.run("llvm.default", mod, context=apass.PassContext(opt_level=level))
            assert result.text == apass.run(f"llvm.O{min(level, 3)}", mod).text
