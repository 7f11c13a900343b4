"""The event loop's turns: however long bodies and passes go on without suspending, others are let in."""

from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, Sequential, function_pass, module_pass
from apass.concurrency.coroutines import metered
from apass.concurrency.scheduler import BATCH, Gate

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
BODY_SECONDS = 50e-6


def spin() -> None:
    """Hold the loop for as long as a short body does."""
    end = perf_counter() + BODY_SECONDS
    while perf_counter() < end:
        pass


def modules_of(count: int, functions: int) -> list[Module]:
    return [{f"f{n}": n for n in range(functions)} for _ in range(count)]


async def most_bodies_between_turns(work: Callable[[Callable[[], None]], Any]) -> int:
    """Return how many bodies ran at most before another task of the loop had its turn."""
    counts = [0]
    done = anyio.Event()

    def body() -> None:
        spin()
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


async def by_a_helper(body: Callable[[], None]) -> None:
    """Run bodies of which the caller's own waits for the last, so that a helper runs the others."""
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
    "bodies of a helper": by_a_helper,
    "bodies with a time limit": lambda body: async_pass(body, timeout=60)(modules_of(1, 2_000)[0]),
    "passes of a Sequential": lambda body: Sequential([whole_pass(body)] * 2_000)({}),
    "modules of plain bodies": lambda body: apass.optimize_all(modules_of(50, 100), plain_pass(body)),
    "modules of async bodies": lambda body: apass.optimize_all(modules_of(50, 100), async_pass(body)),
    "modules of one pass": lambda body: apass.optimize_all(modules_of(2_000, 1), whole_pass(body)),
    "modules without a limit": lambda body: apass.optimize_all(modules_of(2_000, 1), whole_pass(body), limit=None),
    "modules of many passes": lambda body: apass.optimize_all(modules_of(200, 1), Sequential([whole_pass(body)] * 10)),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_bodies_that_never_suspend_let_others_in_every_few_milliseconds(work: Callable[..., Any]) -> None:
    # A turn is 4 ms, which is 80 bodies; a busy machine only makes it fewer.
    assert await most_bodies_between_turns(work) <= 200


@pytest.mark.parametrize("short", range(1_000, 1_016))
async def test_long_bodies_that_come_after_many_short_ones_let_others_in_too(short: int) -> None:
    def uneven(body: Callable[[], None]) -> apass.Pass[Module]:
        def work(func: int, mod: Module, ctx: PassContext) -> int:
            for _ in range(0 if func < short else 50):
                body()
            return func

        return function_pass(work, 0, "Uneven")

    # Each long body takes more than half a turn.
    assert await most_bodies_between_turns(lambda body: uneven(body)(modules_of(1, short + 20)[0])) <= 200


# The line.


async def use_up_a_turn(gate: Gate) -> None:
    await gate.next_turn()
    gate.turn_ends = 0.0


async def wakeups(waiters: int) -> int:
    """Return how often so many are woken, of whom each wants a turn and uses it up."""
    gate = Gate(None)
    steps: list[float] = []

    def count(start: float, end: float) -> None:
        steps.append(start)

    async def wait() -> None:
        await metered(use_up_a_turn(gate), count)

    async with anyio.create_task_group() as tasks:
        for _ in range(waiters):
            tasks.start_soon(wait)
    assert gate.turn == waiters
    return len(steps)


async def test_wake_ups_grow_with_those_who_wait_and_not_with_their_square() -> None:
    few, many = await wakeups(256), await wakeups(1024)
    assert few <= 256 * BATCH
    assert many <= few * 5


async def test_who_comes_first_has_a_turn_first() -> None:
    gate = Gate(None)
    came: list[int] = []
    went: list[int] = []

    async def wait(number: int) -> None:
        came.append(number)
        await use_up_a_turn(gate)
        went.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(5 * BATCH):
            tasks.start_soon(wait, number)
    batches = [came.index(number) // BATCH for number in went]
    assert batches == sorted(batches)


LEAVE_EARLY = {"every other": slice(1, None, 2), "first": slice(2 * BATCH), "middle": slice(BATCH, 3 * BATCH)}


@pytest.mark.parametrize("early", LEAVE_EARLY.values(), ids=LEAVE_EARLY)
async def test_the_turn_of_who_is_cancelled_in_the_line_is_passed_on(early: slice) -> None:
    gate = Gate(None)
    scopes = [anyio.CancelScope() for _ in range(4 * BATCH)]
    all_wait = anyio.Event()
    came: list[int] = []
    went: set[int] = set()

    async def wait(number: int) -> None:
        came.append(number)
        with scopes[number]:
            await gate.next_turn()
            if not all_wait.is_set():
                all_wait.set()
                for other in set(came[early]) - {number}:
                    scopes[other].cancel()
            gate.turn_ends = 0.0
            went.add(number)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(4 * BATCH):
                tasks.start_soon(wait, number)
    stayed = {number for number, scope in enumerate(scopes) if not scope.cancel_called}
    assert (went, len(gate.line.batches)) == (stayed, 0)


async def test_an_event_loop_in_another_thread_has_a_line_of_its_own(anyio_backend_name: str) -> None:
    gate = Gate(None)
    standing = [gate.line.join() for _ in range(BATCH + 1)]
    with anyio.fail_after(60):
        await anyio.to_thread.run_sync(
            lambda: anyio.run(use_up_a_turn, gate, backend=anyio_backend_name), abandon_on_cancel=True
        )
    for batch in standing:
        gate.line.leave(batch, gate.turn)
    assert len(gate.line.batches) == 0


async def test_bodies_that_were_suspended_do_not_stand_in_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.concurrency.scheduler.TURN_SECONDS", 0.0)
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
    # Eleven workers, of which each body takes five rounds; in line it would take as many again.
    assert 1000 * 5 / 11 < rounds[0] < 600
