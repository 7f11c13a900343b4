"""The life of `await pass_(mod)`: the functions that a run calls, in order."""

import inspect
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from types import CodeType, FrameType
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint

import apass
from apass.concurrency.interleaving import seeded
from apass.stores import MemoryStore

__all__ = ["RUNS", "functions_of", "page"]

_PACKAGE: Final = Path(apass.__file__).parent

Module = dict[str, int]


@apass.module_pass(opt_level=0)
def EditModule(mod: Module, ctx: apass.PassContext) -> Module:
    """Return a module with another function."""
    return {**mod, "f": mod["f"] + 1}


@apass.function_pass(opt_level=0)
def EditFunctions(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Return another function."""
    return func + 1


@apass.function_pass(opt_level=0)
async def Waiting(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Return another function after a suspension."""
    await checkpoint()
    return func + 1


@apass.function_pass(opt_level=0, cacheable=True)
async def Stored(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Return another function, which a store may keep."""
    await checkpoint()
    return func + 1


class Observer(apass.instruments.ObservingInstrument):
    """An instrument with hooks around passes and bodies."""

    def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
        """Do nothing."""

    def run_after_pass(self, mod: Module, info: apass.PassInfo) -> None:
        """Do nothing."""

    def run_before_function(self, func: int, run: apass.Run) -> None:
        """Do nothing."""


def _context() -> apass.PassContext:
    return apass.PassContext(instruments=[Observer()], store=MemoryStore(), deadline=60)


RUNS: Final[dict[str, tuple[apass.Pass[Any], Callable[[], apass.PassContext]]]] = {
    "A module pass": (EditModule, apass.PassContext),
    "A function pass": (EditFunctions, apass.PassContext),
    "A function pass that waits": (Waiting, apass.PassContext),
    "The same with a store, an instrument and a deadline": (Stored, _context),
}
"""For each run its title, the pass and the context."""


def functions_of(pass_: apass.Pass[Any], context: Callable[[], apass.PassContext]) -> list[CodeType]:
    """Return the functions of apass that a run calls, in order of first calls."""

    async def main() -> list[CodeType]:
        # A slow machine must not end a time slice.
        with seeded(None):
            ctx = context()
        async with ctx:
            # What is done once, such as finding the adapter of a type, is done before.
            await pass_({"f": 1, "g": 2})
            with _calls() as found:
                await pass_({"f": 3, "g": 4})
        return list(found)

    return anyio.run(main)


@contextmanager
def _calls() -> Generator[dict[CodeType, None]]:
    """Record the functions of apass that are called in the block."""
    found: dict[CodeType, None] = {}

    def record(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(_PACKAGE)) and not code.co_name.startswith("<"):
            found[code] = None

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        yield found
    finally:
        sys.setprofile(before)


def page() -> str:
    """Return the page with a table for each run."""
    lines = [
        "# Life of a pass",
        "",
        "These are the functions of apass that `await pass_(mod)` calls, in the order of their first calls.",
        "The modules are dicts with two functions. What is done once in a program is done before.",
        "[Architecture](architecture.md) explains the parts.",
        "",
        "| Run | Functions | Files |",
        "|---|---:|---:|",
    ]
    found = {title: functions_of(*run) for title, run in RUNS.items()}
    for title, functions in found.items():
        anchor = title.lower().replace(" ", "-").replace(",", "")
        lines.append(f"| [{title}](#{anchor}) | {len(functions)} | {len({code.co_filename for code in functions})} |")
    for title, functions in found.items():
        lines += ["", f"## {title}", "", "| File | Function | What it does |", "|---|---|---|"]
        file = ""
        for code in functions:
            path = str(Path(code.co_filename).relative_to(_PACKAGE))
            shown = f"`{path}`" if path != file else ""
            lines.append(f"| {shown} | `{code.co_qualname}` | {_summary(code)} |")
            file = path
    return "\n".join(lines) + "\n"


def _summary(code: CodeType) -> str:
    """Return the first line of a docstring; nothing for an inner function."""
    module = "apass." + ".".join(Path(code.co_filename).relative_to(_PACKAGE).with_suffix("").parts)
    owner, _, name = code.co_qualname.rpartition(".")
    if "<locals>" in code.co_qualname:
        return ""
    if name == "__init__":
        return f"Make a `{owner}`."
    doc = inspect.getdoc(resolve_name(f"{module}:{code.co_qualname}")) or ""
    return doc.partition("\n")[0].replace("|", r"\|")
