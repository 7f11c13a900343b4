"""Search the order of LLVM's passes for small code.

Each candidate is measured: LLVM compiles the module in a worker process, and the objective is the size of the code. The
search awaits the measurements, and then appends the pass that saves most, until none saves anything.

    pip install "apass[llvm]"
    python examples/order_llvm_passes.py [MODULE.ll] [--rounds 6]
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

import apass
from apass.adapters.llvm import Module, load_module
from apass.adapters.llvm.library import target_machine
from apass.executors import ProcessExecutor

MODULE = Path(__file__).parent / "llvm_modules" / "words.ll"
STARTS = ("llvm.Oz", "llvm.Os", "llvm.sroa,llvm.instcombine,llvm.simplifycfg")
CANDIDATES = (
    "llvm.simplifycfg",
    "llvm.instcombine",
    "llvm.reassociate",
    "llvm.newgvn",
    "llvm.sink",
    "llvm.jump-threading",
    "llvm.loop-rotate",
    "llvm.tailcallelim",
    "llvm.mergereturn",
    "llvm.lower-switch",
    "llvm.sroa,llvm.sccp,llvm.adce",
    "llvm.mergefunc",
    "llvm.Oz",
)


def optimize_and_measure(text: str, pipeline: str) -> tuple[int, str]:
    """Return the size in bytes of the code after a pipeline, and the module.

    It runs in a worker process.
    """
    result = apass.run(pipeline, Module.parse(text)).text
    llvm: Any = import_module("llvmlite.binding")
    ref = llvm.parse_assembly(result, llvm.create_context())
    data = target_machine(ref.triple or llvm.get_default_triple()).emit_object(ref)
    sections = llvm.ObjectFileRef.from_data(data).sections()
    return sum(section.size() for section in sections if section.is_text()), result


async def measure(executor: ProcessExecutor, text: str, pipeline: str) -> tuple[int, str] | None:
    """Return the size and the module after a pipeline; None if LLVM crashes."""
    try:
        return await executor.call(optimize_and_measure, text, pipeline)
    except apass.errors.WorkerLostError:
        # llvmlite is built with assertions. Some orders of passes violate one, which aborts the worker.
        return None


async def best(executor: ProcessExecutor, text: str, pipelines: Sequence[str]) -> tuple[int, str, str]:
    """Return the smallest result: its size, the pipeline and the module."""
    results: list[tuple[int, int, str, str]] = []

    async def attempt(number: int, pipeline: str) -> None:
        found = await measure(executor, text, pipeline)
        if found is not None:
            results.append((found[0], number, pipeline, found[1]))

    async with anyio.create_task_group() as group:
        for number, pipeline in enumerate(pipelines):
            group.start_soon(attempt, number, pipeline)
    size, _, pipeline, result = min(results)
    return size, pipeline, result


async def search(text: str, rounds: int) -> tuple[int, int, list[str]]:
    """Return the size after `llvm.Oz`, the smallest size found, and its pipeline."""
    executor = ProcessExecutor(workers=2)
    oz, _, _ = await best(executor, text, ["llvm.Oz"])
    smallest, found = oz, ["llvm.Oz"]
    for start in STARTS:
        size, _, current = await best(executor, text, [start])
        pipeline = [start]
        for _ in range(rounds):
            new_size, name, result = await best(executor, current, CANDIDATES)
            if new_size >= size:
                break
            size, current = new_size, result
            pipeline.append(name)
        if size < smallest:
            smallest, found = size, pipeline
    return oz, smallest, found


async def main(mod: Module, rounds: int) -> None:
    """Search, and print what was found."""
    oz, smallest, found = await search(mod.text, rounds)
    print(f"llvm.Oz: {oz} bytes of code")
    print(f"{','.join(found)}: {smallest} bytes of code")
    print(f"{oz - smallest} bytes less ({100 * (oz - smallest) / oz:.1f}%)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("module", nargs="?", type=Path, default=MODULE)
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    try:
        module = load_module(arguments.module)
    except (OSError, apass.ApassError) as error:
        parser.error(str(error))
    anyio.run(main, module, max(1, arguments.rounds))
