"""Passes for jobs in the event loop of a test."""

from typing import Any

import anyio

import apass
from apass.service import Job, JobOptions

__all__ = ["PLAIN", "Gate", "Module", "Unhashed", "add", "fail", "reached"]

Module = dict[str, Any]

PLAIN = JobOptions(report=False)
"""Options without a report, which takes most of the time of a small job."""


class Unhashed:
    """A value that only its identity distinguishes."""


def add(amount: int, name: str = "Add") -> apass.Pass[Module]:
    """Return a pass that adds a number to each function."""

    @apass.function_pass(opt_level=0, name=name)
    def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func + amount

    return body


def fail(error: Exception | None = None) -> apass.Pass[Module]:
    """Return a pass that raises an error."""

    @apass.function_pass(opt_level=0, name="Fail")
    def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
        raise ValueError("no") if error is None else error

    return body


class Gate:
    """A pass that waits until the gate is open, and counts its runs."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        self.started: list[Module] = []
        """The modules of the runs, in order of start."""
        self.cancelled = 0
        """How many runs were cancelled."""

        @apass.module_pass(opt_level=0, name="Gate")
        async def wait(mod: Module, ctx: apass.PassContext) -> Module:
            self.started.append(mod)
            try:
                await self.opened.wait()
            except anyio.get_cancelled_exc_class():
                self.cancelled += 1
                raise
            return {**mod, "passed": 1}

        self.wait: apass.Pass[Module] = wait
        """The pass."""


async def reached(job: Job[Any], kind: str, state: str | None = None) -> None:
    """Wait for an event of a job."""
    async for event in job.events():
        if event.kind == kind and state in (None, event.data.get("state")):
            return
    raise AssertionError(f"job {job.id} has ended without the event {kind}")
