"""Passes that raise what ends a program, and programs that are interrupted."""

import signal
from collections.abc import Callable, Generator
from typing import Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.service import JobState, Optimizer
from tests.service.loop_passes import PLAIN, Gate, Module, add, reached


class Panic(BaseException):
    """An error that is no Exception, such as those of foreign libraries."""


def ignore(_number: int, _frame: object) -> None:
    """Do nothing."""


@pytest.fixture
def server_signals() -> Generator[None]:
    """Handle Ctrl-C as a server does: the handler raises nothing."""
    before = signal.signal(signal.SIGINT, ignore)
    yield
    signal.signal(signal.SIGINT, before)


ERRORS: list[Callable[[], BaseException]] = [
    lambda: Panic("no"),
    lambda: GeneratorExit("no"),
    lambda: KeyboardInterrupt("no"),
    lambda: SystemExit("no"),
    lambda: BaseExceptionGroup("no", [SystemExit("no"), Panic("no")]),
]

Kind = Literal["plain", "async", "module"]


def failing(make: Callable[[], BaseException], kind: Kind) -> apass.Pass[Module]:
    """Return a pass that raises an error."""

    @apass.function_pass(opt_level=0, name="Fail")
    def plain(func: int, mod: Module, ctx: apass.PassContext) -> int:
        raise make()

    @apass.function_pass(opt_level=0, name="Fail")
    async def suspending(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await checkpoint()
        raise make()

    @apass.module_pass(opt_level=0, name="Fail")
    async def module(mod: Module, ctx: apass.PassContext) -> Module:
        await checkpoint()
        raise make()

    return {"plain": plain, "async": suspending, "module": module}[kind]


@pytest.mark.anyio
@pytest.mark.usefixtures("server_signals")
@pytest.mark.parametrize("kind", ["plain", "async", "module"])
@pytest.mark.parametrize("make", ERRORS)
async def test_error_of_any_class_fails_its_job(make: Callable[[], BaseException], kind: Kind) -> None:
    gate = Gate()
    pipelines = {"fail": apass.Sequential([failing(make, kind)]), "gate": gate.wait, "add": add(1)}
    async with Optimizer(pipelines) as optimizer:
        waiting = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        await reached(waiting, "started")
        record = await (await optimizer.submit({"f": 1}, pipeline="fail")).wait()
        assert record.state is JobState.FAILED
        assert record.failure is not None
        assert record.failure.pass_name == "Fail"
        assert record.failure.function == (None if kind == "module" else "f")
        assert "no" in record.failure.message
        assert await (await optimizer.submit({"f": 1}, pipeline="add")).result() == {"f": 2}
        gate.opened.set()
        assert (await waiting.wait()).state is JobState.DONE


@pytest.mark.anyio
async def test_error_in_cancelled_pass_ends_no_other_job() -> None:
    @apass.module_pass(opt_level=0, name="Fail")
    async def panic(mod: Module, ctx: apass.PassContext) -> Module:
        try:
            await anyio.sleep_forever()
        finally:
            raise Panic("no")

    async with Optimizer({"fail": panic, "add": add(1)}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="fail", options=PLAIN)
        await reached(job, "started")
        assert (await job.cancel()).state is JobState.CANCELLED
        assert await (await optimizer.submit({"f": 1}, pipeline="add")).result() == {"f": 2}
