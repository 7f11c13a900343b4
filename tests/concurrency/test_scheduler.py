"""Bodies and passes that never suspend do not block the event loop."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, Sequential, function_pass, module_pass
from apass.concurrency.coroutines import metered
from apass.concurrency.scheduler import BATCH, LoopScheduler

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
BODY_SECONDS = 50e-6
SLICE_BODIES = {"asyncio": 81, "trio": 162}
"""How many bodies start within 4 ms, one slice. On trio, two slices may follow each other."""


class Clock:
    """A clock that only bodies advance."""

    def __init__(self) -> None:
        self.bodies = 0

    def __call__(self) -> float:
        return self.bodies * BODY_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("batch.stream", "batch.workers", "concurrency.scheduler", "passes.sequential", "runner.fan_out"):
        monkeypatch.setattr(f"apass.{module}.perf_counter", clock)
    return clock


def modules_of(count: int, functions: int) -> list[Module]:
    return [{f"f{n}": n for n in range(functions)} for _ in range(count)]


async def max_bodies_per_step(clock: Clock, work: Callable[[Callable[[], None]], Any]) -> int:
    """Return the largest number of bodies that ran between two steps of another task."""
    counts = [0]
    done = anyio.Event()

    def body() -> None:
        clock.bodies += 1
        counts[-1] += 1

    async def beat() -> None:
        while not done.is_set():
            counts.append(0)
            await checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        await checkpoint()
        await work(body)
        done.set()
    return max(counts)


def plain_pass(body: Callable[[], None]) -> apass.Pass[Module]:
    def never_suspends(func: int, mod: Module, ctx: PassContext) -> int:
        body()
        return func

    return function_pass(never_suspends, 0, "Plain")


def async_pass(body: Callable[[], None], **guards: Any) -> apass.Pass[Module]:
    async def never_suspends(func: int, mod: Module, ctx: PassContext) -> int:
        body()
        return func

    return function_pass(never_suspends, 0, "Async", **guards)


def whole_pass(body: Callable[[], None]) -> apass.Pass[Module]:
    def never_suspends(mod: Module, ctx: PassContext) -> Module:
        body()
        return mod

    return module_pass(never_suspends, 0, "Whole")


async def run_in_a_helper(body: Callable[[], None]) -> None:
    """Run a pass whose first body waits for the last: a helper runs the others."""
    last = anyio.Event()

    async def wait_or_work(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await last.wait()
            return func
        body()
        if func == len(mod) - 1:
            last.set()
        return func

    await function_pass(wait_or_work, 0, "WaitOrWork")(modules_of(1, 2_000)[0])


WORK: dict[str, Callable[[Callable[[], None]], Awaitable[object]]] = {
    "plain bodies": lambda body: plain_pass(body)(modules_of(1, 10_000)[0]),
    "async bodies": lambda body: async_pass(body)(modules_of(1, 10_000)[0]),
    "bodies of a helper": run_in_a_helper,
    "bodies with a time limit": lambda body: async_pass(body, timeout=60)(modules_of(1, 2_000)[0]),
    "passes of a Sequential": lambda body: Sequential([whole_pass(body)] * 2_000)({}),
    "modules of plain bodies": lambda body: apass.optimize_all(modules_of(50, 100), plain_pass(body)),
    "modules of async bodies": lambda body: apass.optimize_all(modules_of(50, 100), async_pass(body)),
    "modules of one pass": lambda body: apass.optimize_all(modules_of(2_000, 1), whole_pass(body)),
    "modules without a limit": lambda body: apass.optimize_all(modules_of(2_000, 1), whole_pass(body), limit=None),
    "modules of many passes": lambda body: apass.optimize_all(modules_of(200, 1), Sequential([whole_pass(body)] * 10)),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_bodies_without_suspension_yield_every_slice(
    work: Callable[..., Any], clock: Clock, anyio_backend_name: str
) -> None:
    assert await max_bodies_per_step(clock, work) <= SLICE_BODIES[anyio_backend_name]


@pytest.mark.parametrize("long", [2, 50, 500])
async def test_long_bodies_after_short_ones_yield_too(long: int, clock: Clock, anyio_backend_name: str) -> None:
    def uneven(body: Callable[[], None]) -> apass.Pass[Module]:
        def work(func: int, mod: Module, ctx: PassContext) -> int:
            for _ in range(0 if func < 1_000 else long):
                body()
            return func

        return function_pass(work, 0, "Uneven")

    bodies = await max_bodies_per_step(clock, lambda body: uneven(body)(modules_of(1, 1_200)[0]))
    # The last body of a slice may end after it.
    assert bodies <= SLICE_BODIES[anyio_backend_name] * (1 + long / 80)


# The queue.


async def use_up_a_slice(scheduler: LoopScheduler) -> None:
    await scheduler.yield_to_loop()
    scheduler.slice_ends = 0.0


async def wakeups(waiters: int, slices: int = 1) -> int:
    """Return the number of wake-ups of tasks that use up so many slices each."""
    scheduler = LoopScheduler(None)
    steps: list[float] = []

    def count(start: float, end: float) -> None:
        steps.append(start)

    async def wait() -> None:
        for _ in range(slices):
            await metered(use_up_a_slice(scheduler), count)

    async with anyio.create_task_group() as tasks:
        for _ in range(waiters):
            tasks.start_soon(wait)
    assert scheduler.slice == waiters * slices
    return len(steps)


async def test_wake_ups_grow_linearly_with_waiters() -> None:
    few, many = await wakeups(256), await wakeups(1024)
    assert few <= 256 * BATCH
    assert many <= few * 5


async def test_tasks_with_long_bodies_are_seldom_woken() -> None:
    assert await wakeups(16, slices=50) <= 4 * 16 * 50


async def test_waiters_get_slices_in_order() -> None:
    scheduler = LoopScheduler(None)
    queued: list[int] = []
    served: list[int] = []

    async def wait(number: int) -> None:
        queued.append(number)
        await use_up_a_slice(scheduler)
        served.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(5 * BATCH):
            tasks.start_soon(wait, number)
    batches = [queued.index(number) // BATCH for number in served]
    assert batches == sorted(batches)


LEAVE_EARLY = {"every other": slice(1, None, 2), "first": slice(2 * BATCH), "middle": slice(BATCH, 3 * BATCH)}


@pytest.mark.parametrize("early", LEAVE_EARLY.values(), ids=LEAVE_EARLY)
async def test_slice_of_a_cancelled_waiter_is_passed_on(early: slice) -> None:
    scheduler = LoopScheduler(None)
    scopes = [anyio.CancelScope() for _ in range(4 * BATCH)]
    all_wait = anyio.Event()
    queued: list[int] = []
    served: set[int] = set()

    async def wait(number: int) -> None:
        queued.append(number)
        with scopes[number]:
            await scheduler.yield_to_loop()
            if not all_wait.is_set():
                all_wait.set()
                for other in set(queued[early]) - {number}:
                    scopes[other].cancel()
            scheduler.slice_ends = 0.0
            served.add(number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4 * BATCH):
                tasks.start_soon(wait, number)
    not_cancelled = {number for number, scope in enumerate(scopes) if not scope.cancel_called}
    assert (served, len(scheduler.waiters.batches)) == (not_cancelled, 0)


async def test_each_thread_has_its_own_queue(anyio_backend_name: str) -> None:
    scheduler = LoopScheduler(None)
    waiting = [scheduler.waiters.enqueue() for _ in range(BATCH + 1)]
    with anyio.fail_after(60):
        await anyio.to_thread.run_sync(
            lambda: anyio.run(use_up_a_slice, scheduler, backend=anyio_backend_name), abandon_on_cancel=True
        )
    for batch in waiting:
        scheduler.waiters.leave(batch, scheduler.slice)
    assert len(scheduler.waiters.batches) == 0


async def test_resumed_bodies_are_not_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.concurrency.scheduler.SLICE_SECONDS", 0.0)
    rounds, done = [0], anyio.Event()

    async def beat() -> None:
        while not done.is_set():
            rounds[0] += 1
            await checkpoint()

    @function_pass(opt_level=0)
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        for _ in range(5):
            await checkpoint()
        return func

    async with PassContext(max_concurrency=10), anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        await checkpoint()
        await Wait(modules_of(1, 1000)[0])
        done.set()
    # There are eleven workers, and each body takes five iterations of the loop. Queueing would double that.
    assert 1000 * 5 / 11 < rounds[0] < 600
