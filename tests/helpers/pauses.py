"""Runs with pauses: passes to pause at, and a debugger that follows a script."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext
from apass.instruments import Pause, PauseInstrument

__all__ = ["Add", "Paused", "Square", "paused", "run_paused"]

Module = dict[str, int]
Command = str | Callable[[Pause], object]
"""The name of a command, or a function that calls one."""


class Add(apass.ModulePass[Module], opt_level=0, name="pauses.Add"):
    """Add a number to the function `f`."""

    amount: int = 1

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        return {**mod, "f": mod["f"] + self.amount}


class Square(apass.FunctionPass[Module, int], opt_level=0, name="pauses.Square"):
    """Square each function."""

    async def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func * func


@dataclass
class Paused:
    """What happened in a run."""

    log: list[str] = field(default_factory=list[str])
    """A line for each pause."""
    pauses: list[Pause] = field(default_factory=list[Pause])
    """The pauses."""
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    """The result of each module, or its error."""

    @property
    def result(self) -> Any:
        """The result of the only module."""
        (result,) = self.results.values()
        return result


async def run_paused(
    pass_: apass.Pass[Any], mods: Mapping[str, Any], pauses: PauseInstrument, commands: Sequence[Command] = ()
) -> Paused:
    """Run a pass on modules at once, and answer each pause by the next command.

    If no command is left, continue.
    """
    paused, left = Paused(), list(commands)

    async def follow() -> None:
        async for pause in pauses:
            paused.pauses.append(pause)
            module = "" if len(mods) == 1 else f"{pause.position.module}: "
            paused.log.append(f"{module}{pause.stage} {pause.position.text} {pause.reason}")
            command = left.pop(0) if left else "continue_"
            getattr(pause, command)() if isinstance(command, str) else command(pause)

    async def run(name: str) -> None:
        try:
            paused.results[name] = await pass_.run(mods[name], name=name)
        except Exception as error:
            paused.results[name] = error

    async with pauses, anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        async with PassContext(instruments=[pauses]), anyio.create_task_group() as runs:
            for name in mods:
                runs.start_soon(run, name)
    return paused


async def paused(
    pass_: apass.Pass[Any], commands: Sequence[Command] = (), *breakpoints: str, mod: Any = None
) -> Paused:
    """Run a pass on one module; without breakpoints, pause where it begins."""
    pauses = PauseInstrument(breakpoints)
    if not breakpoints:
        pauses.interrupt()
    return await run_paused(pass_, {"m": {"f": 2, "g": 3} if mod is None else mod}, pauses, commands)
