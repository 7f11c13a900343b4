"""Passes of LLVM, compared with llvmlite by itself.

    python -m benchmarks.llvm [--backend asyncio|trio|both] [--rounds 5]

The module has copies of the functions of `examples/llvm_modules/words.ll`. Workers are started before anything is
measured.
"""

import re
import sys
from importlib import import_module
from typing import Any

from apass import PassContext, get_pass
from apass.adapters.llvm import Module
from apass.adapters.llvm.library import target_machine
from apass.executors import ProcessExecutor
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare
from examples.order_llvm_passes import MODULE

COPIES = 100
"""How many copies of each function the module has."""

llvm: Any = import_module("llvmlite.binding")


def copies() -> Module:
    """Return a module with copies of the functions of the example."""
    text = MODULE.read_text(encoding="utf-8")
    names = "|".join(re.findall(r"^define .*?@(\w+)\(", text, re.MULTILINE))
    functions = re.findall(r"^define .*?^}\n", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^define .*?^}\n", "", text, flags=re.MULTILINE | re.DOTALL)
    copied = [re.sub(rf"@({names})\(", rf"@\1_{number}(", one) for number in range(COPIES) for one in functions]
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
    simplify = get_pass("llvm.function-simplification", level=3)
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
    optimize = get_pass("llvm.O2")

    def theirs() -> str:
        ref = llvm.parse_assembly(mod.text, llvm.create_context())
        builder = llvm.create_pass_builder(target_machine(ref.triple), llvm.create_pipeline_tuning_options(2))
        builder.getModulePassManager().run(ref, builder)
        return f"{ref}"

    async def ours() -> str:
        result: Module = await optimize(Module.parse(mod.text))
        return result.text

    await compare(f"{len(mod.functions)} functions, O2", ours, theirs, 1.25, "llvmlite", rounds)


BENCHMARKS = (Benchmark(functions, rounds=3), Benchmark(pipelines, rounds=3))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
