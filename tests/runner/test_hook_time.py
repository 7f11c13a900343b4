"""The time of hooks is not part of the time of the pass that they surround."""

from typing import Any

import anyio
import pytest

import apass
from apass import PassContext, Sequential
from apass.instruments import FunctionTimingInstrument, PassTimingInstrument
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio

NOW = [0.0]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    NOW[0] = 1000.0
    runner = ("runner.pass_hooks", "core.run", "runner.hook_time", "runner.function_hooks", "concurrency.coroutines")
    for module in (*runner, "instruments.timing.passes", "instruments.timing.functions"):
        monkeypatch.setattr(f"apass.{module}.perf_counter", lambda: NOW[0])


class Slow(apass.PassInstrument):
    """Instrument whose hooks take 10, 20 and 1 s."""

    def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        NOW[0] += 10

    async def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        await anyio.lowlevel.checkpoint()
        NOW[0] += 20

    def run_before_function(self, func: Any, run: apass.Run) -> None:
        NOW[0] += 1


class Times(apass.PassInstrument):
    """Instrument that records the times of runs, and of hooks by caller."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.hooks: dict[str | None, float] = {}

    def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        run = apass.current_run()
        assert run is not None
        self.seconds[info.name] = run.seconds

    def on_hooks(self, run: apass.Run | None, start: float, end: float, busy: float) -> None:
        name = None if run is None else run.info.name
        assert end - start == busy
        self.hooks[name] = self.hooks.get(name, 0) + end - start


def work(mod: Any, ctx: Any) -> Any:
    NOW[0] += 3
    return mod


def work_on_function(func: Any, mod: Any, ctx: Any) -> Any:
    NOW[0] += 5
    return func


PIPELINE = Sequential([module_pass_of(work, name="Module"), function_pass_of(work_on_function, name="Function")])


@pytest.mark.parametrize("first", [True, False])
async def test_time_of_hooks_belongs_to_the_caller(first: bool) -> None:
    times = Times()
    async with PassContext(instruments=[times, Slow()] if first else [Slow(), times]):
        await PIPELINE({"f": 1, "g": 2})
    hooks = {None: 30.0, "sequential": 60.0, "Function": 2.0}
    assert (times.seconds, times.hooks) == ({"Module": 3.0, "Function": 12.0, "sequential": 75.0}, hooks)


@pytest.mark.parametrize("first", [True, False])
async def test_timing_shows_hooks_by_themselves(first: bool) -> None:
    timing, functions = PassTimingInstrument(), FunctionTimingInstrument()
    instruments = [timing, functions, Slow()] if first else [Slow(), functions, timing]
    async with PassContext(instruments=instruments):
        await PIPELINE({"f": 1, "g": 2})
    (root,) = timing.profile()
    assert [(item.name, item.wall, item.hooks_wall) for item in (root, *root.children)] == [
        ("sequential", 75.0, 60.0),
        ("Module", 3.0, 0.0),
        ("Function", 12.0, 2.0),
    ]
    assert (root.busy, root.hooks_busy) == (75.0, 60.0)
    assert [(item.function, item.wall) for item in functions.slowest()] == [("f", 5.0), ("g", 5.0)]


async def test_time_of_hooks_counts_for_skipped_pass() -> None:
    class Skip(apass.PassInstrument):
        def should_run(self, mod: Any, info: apass.PassInfo) -> bool:
            NOW[0] += 4
            return info.name != "Module"

    times = Times()
    async with PassContext(instruments=[times, Skip()]):
        await PIPELINE({"f": 1, "g": 2})
    assert times.hooks == {None: 4.0, "sequential": 8.0}
    assert times.seconds == {"Function": 10.0, "sequential": 18.0}


async def test_waiting_of_hooks_is_not_busy() -> None:
    class Waiting(apass.PassInstrument):
        async def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.spend)

        async def spend(self) -> None:
            NOW[0] += 7

    spans: list[tuple[float, float]] = []

    class Spans(apass.PassInstrument):
        def on_hooks(self, run: apass.Run | None, start: float, end: float, busy: float) -> None:
            spans.append((end - start, busy))

    async with PassContext(instruments=[Waiting(), Spans()]):
        await module_pass_of(work)({})
    assert spans == [(7.0, 0.0), (0.0, 0.0)]
