"""Costs of LLVM modules: instructions and size of the code.

They are keys of a `Race`, and objectives of a search.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from anyio import fail_after

from apass.adapters.llvm.module import Module
from apass.adapters.llvm.opt import needed_opt
from apass.adapters.programs import OPT
from apass.concurrency.processes.command import complete_process
from apass.core.context import PassContext
from apass.core.named_callables import register_callable
from apass.errors import AdapterError, MissingExtraError
from apass.util.paired_times import PairedTimes

__all__ = ["compare_times", "instructions", "text_bytes"]

MEASURING: Final = 3.0
"""Seconds after which no further round of runs is started."""
SECONDS: Final = 120.0
"""Time limit of each program."""


@register_callable("llvm.instructions")
def instructions(mod: Module) -> int:
    """Return the number of instructions and debug records in all functions."""
    return mod.instructions


@register_callable("llvm.text_bytes")
async def text_bytes(mod: Module) -> int:
    """Return the size in bytes of the code that `llc` makes.

    These are the sections `.text*` of an object file.

    The optimization level of the code generator is the default, 2.

    Raises:
        AdapterError: if the code cannot be generated.
        MissingExtraError: if a program is not installed.

    """
    opt = needed_opt().path
    with TemporaryDirectory(prefix="apass-llvm-") as folder:
        target = Path(folder, "module.o")
        await _output([_sibling(opt, "llc"), "-filetype=obj", "-o", target, "-"], mod.data)
        listed = await _output([_sibling(opt, "llvm-size"), "-A", target])
    rows = [line.split() for line in listed.decode().splitlines()]
    return sum(int(row[1]) for row in rows if len(row) > 1 and row[0].startswith((".text", "__text")))


async def compare_times(before: Module, after: Module) -> PairedTimes:
    """Compile two programs, run them alternately, and return the times.

    The modules have a function `main`, which gets no arguments and an empty standard input. Clang generates code with
    `-O2`, without further passes on the IR. The programs run in the measurement lane, with the rights of this process.

    Raises:
        AdapterError: if a program cannot be compiled.
        HelperError: if one exits with another status than 0.
        MissingExtraError: if clang is not installed beside `opt`.

    """
    opt = needed_opt().path
    with TemporaryDirectory(prefix="apass-llvm-") as folder:
        programs = [Path(folder, name) for name in ("before", "after")]
        for mod, program in zip((before, after), programs, strict=True):
            options = ["-x", "ir", "-O2", "-Xclang", "-disable-llvm-passes", "-Wno-override-module"]
            await _output([_sibling(opt, "clang"), *options, "-", "-o", program, "-lm"], mod.data)
        async with PassContext.current().measuring() as measurement:

            async def seconds(program: Path) -> float:
                return (await measurement.run([program])).seconds

            for program in programs:  # the first run reads the file
                await seconds(program)
            return await measurement.compare(
                partial(seconds, programs[0]), partial(seconds, programs[1]), seconds=MEASURING
            )


def _sibling(opt: Path, name: str) -> Path:
    program = OPT.sibling(opt, name)
    if program is None:
        raise MissingExtraError(f"this cost needs the program {name} beside {opt}; install it")
    return program


async def _output(command: Sequence[str | Path], question: bytes = b"") -> bytes:
    try:
        with fail_after(SECONDS):
            done = await complete_process(command, question)
    except TimeoutError:
        raise AdapterError(f"{Path(command[0]).name} took longer than {SECONDS:g} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise AdapterError(f"{Path(command[0]).name} failed: {lines[0] if lines else f'status {done.returncode}'}")
    return done.stdout
