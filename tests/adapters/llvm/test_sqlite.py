"""SQLite's 2,500 functions, compared with llvmlite and with LLVM's `opt`.

The amalgamation is that of npm's package better-sqlite3. It is fetched once into `kept_folder()`.
"""

import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence

import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.llvm.library import without_predecessors
from apass.adapters.llvm.passes.table import function_passes
from apass.executors import ProcessExecutor
from tests.helpers.amounts import some
from tests.helpers.kept_files import kept_folder
from tests.helpers.llvm_modules import TEXTS, by_function, by_itself, prepared

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("clang-22") is None, reason="needs clang-22"),
]

PACKAGE = "better-sqlite3@12.11.1"
NAMES = "adce aggressive-instcombine dse instcombine lcssa loop-simplify newgvn reassociate sccp simplifycfg sroa"
"""Passes whose result in `opt` does not depend on how they are combined."""


@pytest.fixture(scope="module")
def sqlite() -> Module:
    folder = kept_folder()
    source, text = folder / "sqlite3.c", folder / "sqlite3.ll"
    if not source.exists():
        if shutil.which("npm") is None:
            pytest.skip("needs npm")
        command = ["npm", "pack", "--silent", PACKAGE]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            pytest.skip(f"npm cannot fetch {PACKAGE}")
        with tarfile.open(folder / done.stdout.split()[-1]) as archive:
            member = archive.extractfile("package/deps/sqlite3/sqlite3.c")
            assert member is not None
            source.write_bytes(member.read())
    if not text.exists():
        options = ["-O2", "-Xclang", "-disable-llvm-passes", "--target=x86_64-unknown-linux-gnu", "-S", "-emit-llvm"]
        subprocess.run(["clang-22", *options, str(source), "-o", str(text)], check=True, timeout=120)
    return Module.parse(text.read_text(encoding="utf-8"))


def by_opt(text: str, passes: str) -> str:
    """Return what `opt` prints, without the comments that depend on memory."""
    command = ["opt-22", f"-passes={passes}", "-S", "-o", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=120)
    return comparable(done.stdout)


def comparable(text: str) -> str:
    return re.sub("^; ModuleID = .*\n", "", without_predecessors(text))


@pytest.mark.parametrize("name", TEXTS)
def test_passes_give_the_text_of_opt(name: str) -> None:
    mod = Module.parse(TEXTS[name])
    for pass_name in NAMES.split():
        result = apass.run(apass.get_pass(f"llvm.{pass_name}"), mod)
        if name != "symbols":  # opt knows no mark "SkipOptimization"
            assert comparable(result.text) == by_opt(mod.text, pass_name), pass_name


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "Oz"])
@pytest.mark.parametrize("name", TEXTS)
def test_pipelines_give_the_text_of_opt(name: str, level: str) -> None:
    mod = Module.parse(TEXTS[name])
    result = apass.run(apass.get_pass(f"llvm.{level}"), mod)
    assert comparable(result.text) == by_opt(prepared(mod.text, level), f"default<{level}>")


def only(mod: Module, names: Sequence[str]) -> Module:
    """Return a module with some functions; the others have no code."""
    return Module.parse(mod.private(names).raw_text)


@pytest.fixture(scope="module")
def part(sqlite: Module) -> Module:
    return only(sqlite, list(sqlite.functions)[::16])


@pytest.mark.slow
def test_all_functions_give_the_text_of_llvmlite(sqlite: Module) -> None:
    assert len(sqlite.functions) > 2500
    mod = only(sqlite, some(list(sqlite.functions)))
    result = apass.run(apass.get_pass("llvm.sroa"), mod, context=by_function())
    assert result.text == by_itself(mod.text, function_passes()["sroa"])


@pytest.mark.slow
@pytest.mark.parametrize("context", [apass.PassContext, by_function])
def test_function_passes_give_the_text_of_llvmlite(part: Module, context: Callable[[], apass.PassContext]) -> None:
    mod = part
    for name in ("sroa", "simplifycfg", "instcombine", "newgvn", "loop-rotate"):
        result = apass.run(apass.get_pass(f"llvm.{name}"), mod, context=context())
        assert result.text == by_itself(mod.text, function_passes()[name]), name
        mod = result


@pytest.mark.slow
@pytest.mark.parametrize("level", ["O1", "Oz"])
def test_pipeline_gives_the_text_of_opt(part: Module, level: str) -> None:
    result = apass.run(apass.get_pass(f"llvm.{level}"), part)
    assert comparable(result.text) == by_opt(prepared(part.text, level), f"default<{level}>")


@pytest.mark.slow
@pytest.mark.anyio
async def test_processes_give_the_text_of_llvmlite(part: Module) -> None:
    async with apass.PassContext(executor=ProcessExecutor(workers=2)):
        result = await apass.get_pass("llvm.instcombine")(part)
    assert result.text == by_itself(part.text, function_passes()["instcombine"])
