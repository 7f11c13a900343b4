"""Passes that measure: the wait for the lane, time limits, and stored results."""

import time
from pathlib import Path

import anyio
import pytest

import apass
from apass import PassContext
from apass.concurrency.measuring import MeasurementLane
from apass.errors import BudgetExceededError, MeasurementError, PassTimeoutError
from apass.stores.memory import MemoryStore
from tests.helpers.calls import Calls

pytestmark = pytest.mark.anyio

Module = dict[str, int]


@pytest.fixture(autouse=True)
def _own_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_MEASURING_LOCK", str(tmp_path / "lock"))


async def hold_lane(seconds: float) -> None:
    async with MeasurementLane().measuring():
        await anyio.sleep(seconds)


@apass.function_pass(opt_level=0, timeout=5)
async def MeasureBriefly(func: int, mod: Module, ctx: PassContext) -> int:
    async with ctx.measuring():
        await anyio.sleep(func)
    return -func


@pytest.mark.usefixtures("idle_clock")
async def test_wait_for_the_lane_does_not_count() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(hold_lane, 100)
        await anyio.wait_all_tasks_blocked()
        # The second function waits for the first one too.
        assert await MeasureBriefly({"f": 4, "g": 4}) == {"f": -4, "g": -4}
        assert anyio.current_time() == pytest.approx(108, abs=1)
        with pytest.raises(PassTimeoutError, match="'MeasureBriefly' took longer than 5 s"):
            await MeasureBriefly({"f": 6})


@pytest.mark.usefixtures("idle_clock")
async def test_deadline_applies_while_waiting() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(hold_lane, 100)
        await anyio.wait_all_tasks_blocked()
        async with PassContext(deadline=50):
            with pytest.raises(BudgetExceededError):
                await MeasureBriefly({"f": 1})
        assert anyio.current_time() == pytest.approx(50, abs=1)
        group.cancel_scope.cancel()


class WaitRecorder:
    """Records what passes wait for."""

    def __init__(self) -> None:
        self.waits: list[tuple[str, bool]] = []

    def on_wait(self, run: apass.Run | None, what: str, is_over: bool) -> None:
        """Record a wait."""
        self.waits.append((what, is_over))


async def test_instruments_see_the_wait() -> None:
    recorder = WaitRecorder()

    @apass.module_pass(opt_level=0)
    async def Measure(mod: Module, ctx: PassContext) -> Module:
        async with ctx.measuring():
            recorder.waits.append(("inside", False))
        return mod

    async with PassContext(instruments=[recorder]):
        await Measure({"f": 1})
    assert recorder.waits == [("the measurement lane", False), ("the measurement lane", True), ("inside", False)]


@pytest.mark.process
async def test_result_without_a_cancelled_run_is_not_stored() -> None:
    calls = Calls()

    @apass.module_pass(opt_level=0, cacheable=True, version="1")
    async def Measure(mod: Module, ctx: PassContext) -> Module:
        calls.append(1)
        async with ctx.measuring() as measurement:
            with anyio.move_on_after(0 if len(calls) == 1 else None):
                return {"f": await measurement.call(len, "seven")}
        return mod

    async with PassContext(store=MemoryStore()):
        assert [await Measure({"f": 1}) for _ in range(3)] == [{"f": 1}, {"f": 5}, {"f": 5}]
    assert len(calls) == 2


@pytest.mark.process
async def test_pass_compares_two_variants() -> None:
    @apass.module_pass(opt_level=0)
    async def Faster(mod: Module, ctx: PassContext) -> Module:
        async with ctx.measuring() as measurement:

            async def long() -> float:
                return await measurement.call(timed_sum, 200_000)

            async def short() -> float:
                return await measurement.call(timed_sum, 100)

            times = await measurement.compare(long, short, most=8)
        return {"f": mod["f"] if times.verdict == "slower" else -mod["f"]}

    assert await Faster({"f": 1}) == {"f": -1}


def timed_sum(count: int) -> float:
    """Return the seconds of a sum of many numbers."""
    start = time.perf_counter()
    sum(range(count))
    return time.perf_counter() - start


async def test_pass_that_measures_runs_no_other_one() -> None:
    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: PassContext) -> Module:
        async with ctx.measuring():
            return await MeasureBriefly(mod)

    with pytest.raises(MeasurementError, match="measures already"):
        await Outer({"f": 0})
