"""Passes of LLVM, compared with `opt` and with llvmlite by themselves.

    python -m benchmarks.llvm [--backend asyncio|trio|both] [--rounds 5]

The module has copies of the functions of `examples/llvm_modules/words.ll`. Workers are started before anything is
measured. The loop over `opt` reads and writes files, and so does apass. `taskset -c 0` measures one core.
"""

import re
import shutil
import subprocess
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from apass import PassContext, get_pass, optimize_all, parse_pipeline
from apass.adapters.llvm import Module, load_module
from apass.adapters.llvm.library import target_machine
from apass.adapters.programs import OPT
from apass.concurrency.limits import usable_cores
from apass.errors import MissingExtraError
from apass.executors import ProcessExecutor
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare

MODULE = Path(__file__).parents[1] / "examples" / "llvm_modules" / "words.ll"

COPIES = 100
"""How many copies of each function the module has."""

SQLITE = "better-sqlite3@12.11.1"
"""The package of npm with SQLite in one file."""

llvm: Any = import_module("llvmlite.binding")


def copies(count: int = COPIES) -> Module:
    """Return a module with copies of the functions of the example."""
    text = MODULE.read_text(encoding="utf-8")
    names = "|".join(re.findall(r"^define .*?@(\w+)\(", text, re.MULTILINE))
    functions = re.findall(r"^define .*?^}\n", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^define .*?^}\n", "", text, flags=re.MULTILINE | re.DOTALL)
    copied = [re.sub(rf"@({names})\(", rf"@\1_{number}(", one) for number in range(count) for one in functions]
    return Module.parse(rest + "".join(copied))


def by_itself(text: str) -> str:
    """Simplify one function after the other with llvmlite, and return the text."""
    ref = llvm.parse_assembly(text, llvm.create_context())
    builder = llvm.create_pass_builder(target_machine(ref.triple), llvm.create_pipeline_tuning_options(3))
    manager = builder.getFunctionPassManager()
    for function in ref.functions:
        if not function.is_declaration:
            manager.run(function, builder)
    return f"{ref}"


async def functions(rounds: int) -> None:
    """Compare a pipeline over functions in two processes with llvmlite."""
    mod = copies()
    simplify = get_pass("llvm.function-simplification", level="O3", engine="llvmlite")
    async with PassContext(executor=ProcessExecutor(workers=2)):
        await simplify(mod)

        async def ours() -> str:
            # A module keeps the results of a pass, so each round has its own.
            result: Module = await simplify(Module.parse(mod.text))
            return result.raw_text

        title = f"{len(mod.functions)} functions, simplified"
        await compare(title, ours, lambda: by_itself(mod.text), 1 / 1.6, "llvmlite, in one thread", rounds)


async def pipelines(rounds: int) -> None:
    """Compare the pipeline O2 over a module with llvmlite."""
    mod = copies()
    optimize = get_pass("llvm.default", level="O2", engine="llvmlite")

    def theirs() -> str:
        ref = llvm.parse_assembly(mod.text, llvm.create_context())
        options = llvm.create_pipeline_tuning_options(2)
        options.slp_vectorization = True
        builder = llvm.create_pass_builder(target_machine(ref.triple), options)
        builder.getModulePassManager().run(ref, builder)
        return f"{ref}"

    async def ours() -> str:
        result: Module = await optimize(Module.parse(mod.text))
        return result.text

    await compare(f"{len(mod.functions)} functions, O2", ours, theirs, 1.25, "llvmlite", rounds)


async def by_opt(title: str, text: str, count: int, rounds: int, bound: float) -> None:
    """Compare the pipeline O2 on files of one text with a loop over `opt`."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"m{index}.ll" for index in range(count)]
        for file in files:
            file.write_text(text)
        optimize = parse_pipeline("llvm:default<O2>")

        def theirs() -> None:
            for file in files:
                command = [str(OPT.find()), "-S", "-passes=default<O2>", str(file), "-o", str(file.with_suffix(".out"))]
                subprocess.run(command, check=True)

        async def ours() -> None:
            results = await optimize_all({file: load_module(file) for file in files}, optimize)
            for file, module in results.items():
                file.with_suffix(".out").write_text(module.text)

        await compare(title, ours, theirs, bound, "opt in turn", rounds)


async def eight_modules(rounds: int) -> None:
    """Run the pipeline O2 on eight files of 110 functions each."""
    await by_opt("8 modules of 110 functions, O2", copies(10).text, 8, rounds, 0.6 if usable_cores() > 1 else 1.1)


async def small_modules(rounds: int) -> None:
    """Run the pipeline O2 on 40 files of eleven functions each."""
    await by_opt("40 small modules, O2", copies(1).text, 40, rounds, 0.6 if usable_cores() > 1 else 1.2)


def sqlite_text() -> str:
    """Return SQLite, as clang gives it to the passes."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        command = ["npm", "pack", "--silent", SQLITE]
        packed = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True)
        with tarfile.open(folder / packed.stdout.split()[-1]) as archive:
            member = archive.extractfile("package/deps/sqlite3/sqlite3.c")
            assert member is not None
            (folder / "sqlite3.c").write_bytes(member.read())
        options = ["-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
        subprocess.run(["clang-22", *options, "sqlite3.c", "-o", "sqlite3.ll"], cwd=folder, check=True)
        return (folder / "sqlite3.ll").read_text()


async def sqlite(rounds: int) -> None:
    """Run the pipeline O2 on SQLite's 2,500 functions."""
    await by_opt("SQLite, O2", sqlite_text(), 1, rounds, 1.1)


def _needs(*programs: str) -> tuple[str, ...]:
    """Return which programs are missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    try:
        OPT.find()
    except MissingExtraError:
        missing.append("opt")
    return tuple(missing)


BENCHMARKS = (
    Benchmark(functions, rounds=3),
    Benchmark(pipelines, rounds=3),
    Benchmark(eight_modules, rounds=5, needs=_needs()),
    Benchmark(small_modules, rounds=5, needs=_needs()),
    Benchmark(sqlite, rounds=3, needs=_needs("clang-22", "npm")),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
