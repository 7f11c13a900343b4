"""Instruments of whole modules in executors: twins, records and errors."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass import PassContext, PassInfo, Sequential, optimize_all, optimize_stream, pass_instrument
from apass.batch import Outcome
from apass.errors import ExecutorError, PassContextError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from apass.executors.dask import DaskExecutor
from apass.executors.interpreters import InterpreterExecutor
from apass.instruments import BisectInstrument, PassTimingInstrument
from tests.executors import work
from tests.executors.files import pid_in
from tests.executors.portable import CountPasses, KeepLock, RaiseAtStart, SkipFail

pytestmark = [pytest.mark.anyio, pytest.mark.process]

MODULES = {"good": {"a": "fine"}, "bad": {"a": "plain"}}
PASSES = Sequential([work.Report, work.Fail])
every_executor = pytest.mark.parametrize(
    "executor", [ThreadExecutor(workers=2), ProcessExecutor(workers=2)], ids=["threads", "processes"]
)


async def run(executor: Executor, *instruments: object) -> dict[str, Outcome[Any]]:
    """Run `PASSES` on `MODULES` in an executor."""
    async with PassContext(instruments=instruments):
        return await optimize_all(MODULES, PASSES, errors="collect", executor=executor)


@every_executor
async def test_records_of_workers_are_merged(executor: Executor) -> None:
    counting = CountPasses()
    outcomes = await run(executor, counting)
    assert (counting.counts, counting.lost) == ({"good": 3, "bad": 3}, 0)
    assert isinstance(outcomes["bad"].error, LookupError)


@pytest.mark.slow
@pytest.mark.network
async def test_records_of_a_cluster_are_merged() -> None:
    counting = CountPasses()
    async with DaskExecutor(workers=1) as executor:
        await run(executor, counting)
    assert counting.counts == {"good": 3, "bad": 3}


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the interpreter executor requires Python 3.13")
async def test_records_of_interpreters_are_merged() -> None:
    counting = CountPasses()
    await run(InterpreterExecutor(workers=2), counting)
    assert counting.counts == {"good": 3, "bad": 3}


@every_executor
async def test_should_run_of_a_twin_skips_passes(executor: Executor) -> None:
    outcomes = await run(executor, SkipFail())
    assert outcomes["bad"].module is MODULES["bad"]


@every_executor
async def test_error_of_a_twin_fails_its_module(executor: Executor) -> None:
    counting = CountPasses()
    outcomes = await run(executor, counting, RaiseAtStart())
    assert str(outcomes["good"].error) == "not sequential"
    assert counting.counts == {"good": 1, "bad": 1}


@every_executor
async def test_instrument_that_is_listed_twice_has_one_twin(executor: Executor) -> None:
    counting = CountPasses()
    await run(executor, counting, counting)
    assert counting.counts == {"good": 3, "bad": 3}


@every_executor
async def test_stream_observes_whole_modules(executor: Executor) -> None:
    timing = PassTimingInstrument()
    async with (
        PassContext(instruments=[timing]),
        optimize_stream([{"f": 1}], work.Increment, executor=executor) as all_,
    ):
        assert [outcome.unwrap() async for outcome in all_] == [{"f": 2}]
    assert [(item.name, item.module, item.calls) for item in timing.profile()] == [("Increment", "0", 1)]


@pass_instrument
class Silent:
    """An instrument without `for_worker`."""

    def run_before_pass(self, mod: Any, info: object) -> None:
        """Do nothing."""


@pass_instrument
class OwnTiming(PassTimingInstrument):
    """A subclass whose twin would be one of its base class."""

    name = "OwnTiming"

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Do nothing."""


@every_executor
@pytest.mark.parametrize(
    ("instrument", "reason"),
    [
        (Silent(), r"'Silent' cannot observe whole modules in an executor: Silent does not define for_worker\(\); rem"),
        (OwnTiming(), r"'OwnTiming' cannot .*: OwnTiming overrides run_before_pass, but not for_worker\(\); remove"),
        (BisectInstrument(3), "'BisectInstrument' cannot observe whole modules in an executor: passes are numbered"),
    ],
)
async def test_unportable_instrument_is_rejected_before_the_run(
    executor: Executor, instrument: object, reason: str
) -> None:
    async with PassContext(instruments=[instrument]) as ctx:
        with pytest.raises(PassContextError, match=reason):
            await optimize_all(MODULES, PASSES, executor=executor)
        with pytest.raises(PassContextError, match=reason):
            await executor.optimize(PASSES, {"a": "fine"}, ctx)


@pass_instrument
class LocalTwin:
    """An instrument whose twin cannot be pickled."""

    def run_before_pass(self, mod: Any, info: object) -> None:
        """Do nothing."""

    def for_worker(self) -> Callable[[], object]:
        """Return a closure."""
        return lambda: self


async def test_twin_that_cannot_be_pickled_is_an_error() -> None:
    outcomes = await run(ProcessExecutor(workers=1), LocalTwin())
    error = outcomes["good"].error
    assert isinstance(error, ExecutorError)
    assert str(error).startswith("the twin of instrument 'LocalTwin' cannot be sent to another process")


async def test_records_that_cannot_be_pickled_are_an_error() -> None:
    outcomes = await run(ProcessExecutor(workers=1), KeepLock())
    error = outcomes["good"].error
    assert isinstance(error, ExecutorError)
    assert str(error).startswith("the records of instrument 'KeepLock' cannot be sent to another process")


async def test_worker_lost_is_called_when_workers_die() -> None:
    counting = CountPasses()
    async with PassContext(instruments=[counting]):
        await optimize_all(
            {"m": {"a": "deadly"}}, work.DieAlways, errors="collect", executor=ProcessExecutor(workers=1)
        )
    assert (counting.counts, counting.lost) == ({}, 1)


@every_executor
async def test_worker_lost_is_called_when_run_is_cancelled(executor: Executor, tmp_path: Path) -> None:
    counting, path = CountPasses(), tmp_path / "pid"
    async with PassContext(instruments=[counting]), anyio.create_task_group() as group:

        async def optimize() -> None:
            await optimize_all({"m": {"a": str(path)}}, work.RecordAndWait, executor=executor)

        group.start_soon(optimize)
        await pid_in(path)
        group.cancel_scope.cancel()
    assert (counting.counts, counting.lost) == ({}, 1)
