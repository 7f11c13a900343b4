"""Concurrent function passes: workers, slots and context variables."""

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, function_pass
from apass.runner import fan_out
from apass.runner.fan_out import variables_of
from tests.helpers.context_state import state_of
from tests.helpers.recording import FunctionBody, function_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
VAR: ContextVar[object] = ContextVar("VAR")


def modules_of(count: int, functions: int) -> list[Module]:
    return [{f"f{n}": n for n in range(functions)} for _ in range(count)]


# Workers.


async def test_plain_body_runs_in_task_of_caller() -> None:
    task_ids: set[int] = set()

    def record_task(func: int, mod: Module, ctx: PassContext) -> int:
        task_ids.add(anyio.get_current_task().id)
        return func

    await function_pass(record_task, 0, "Plain")({f"f{n}": n for n in range(100)})
    assert task_ids == {anyio.get_current_task().id}


async def test_bodies_without_suspension_run_in_one_task() -> None:
    order: list[int] = []
    task_ids: set[int] = set()

    @function_pass(opt_level=0)
    async def Count(func: int, mod: Module, ctx: PassContext) -> int:
        order.append(func)
        task_ids.add(anyio.get_current_task().id)
        return func

    async with PassContext() as ctx:
        state_of(ctx).scheduler.slice_ends = float("inf")
        await Count({f"f{n}": n for n in range(100)})
    assert (order, task_ids) == (list(range(100)), {anyio.get_current_task().id})


@pytest.mark.parametrize(("limit", "expected"), [(1, 2), (2, 3), (7, 8), (256, 20), (None, 20)])
async def test_concurrent_bodies_are_limited_by_max_concurrency(limit: int | None, expected: int) -> None:
    async with PassContext(max_concurrency=limit) as ctx:
        before = state_of(ctx).scheduler.free
        assert await max_in_flight(20, lambda pass_: pass_(modules_of(1, 20)[0])) == expected
        assert state_of(ctx).scheduler.free == before


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_concurrent_callers_share_slots_of_context(limit: int) -> None:
    async with PassContext(max_concurrency=limit):
        assert await max_in_flight(60, lambda pass_: apass.optimize_all(modules_of(5, 12), pass_)) == 5 + limit


async def test_rejected_caller_gets_slot_that_becomes_free() -> None:
    may_release, released, both_running = anyio.Event(), anyio.Event(), anyio.Event()
    running: list[int] = []

    @function_pass(opt_level=0)
    async def Hold(func: int, mod: Module, ctx: PassContext) -> int:
        await may_release.wait()
        return func

    @function_pass(opt_level=0)
    async def Share(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await checkpoint()
            may_release.set()
            await released.wait()
            return func
        running.append(func)
        if len(running) == 2:
            both_running.set()
        await both_running.wait()
        return func

    async def hold() -> None:
        await Hold({"f": 1, "g": 2})
        released.set()

    with anyio.fail_after(60):
        async with PassContext(max_concurrency=1), anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            await Share({f"f{n}": n for n in range(3)})


async def test_short_waits_need_few_workers() -> None:
    task_ids: set[int] = set()

    @function_pass(opt_level=0)
    async def WaitOnce(func: int, mod: Module, ctx: PassContext) -> int:
        task_ids.add(anyio.get_current_task().id)
        await checkpoint()
        return func

    async with PassContext() as ctx:
        state_of(ctx).scheduler.slice_ends = float("inf")
        await WaitOnce({f"f{n}": n for n in range(1000)})
    assert 2 < len(task_ids) < 32


@pytest.mark.parametrize("every", [1, 2, 5])
async def test_waiting_bodies_get_all_workers_beside_quick_ones(every: int) -> None:
    waiting: list[int] = []
    all_waiting = anyio.Event()

    @function_pass(opt_level=0)
    async def Mixed(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        if func >= 200 and func % every == 0:
            waiting.append(func)
            if len(waiting) == 100:
                all_waiting.set()
            await all_waiting.wait()
        return func

    async with PassContext(max_concurrency=99):
        with anyio.fail_after(60):
            await Mixed({f"f{n}": n for n in range(200 + 100 * every)})
    assert len(waiting) == 100


async def max_in_flight(bodies: int, run: Callable[[apass.Pass[Module]], Any]) -> int:
    """Return the largest number of bodies that run at once.

    No body ends while another one can still start.
    """
    waiting: list[anyio.Event] = []
    counts = [0]

    @function_pass(opt_level=0)
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        waiting.append(anyio.Event())
        await waiting[-1].wait()
        return func

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, Wait)
        while sum(counts) < bodies:
            # Many more rounds of the event loop than the start of all permitted bodies takes.
            for _ in range(200):
                await checkpoint()
            counts.append(len(waiting))
            for event in waiting:
                event.set()
            waiting.clear()
    return max(counts)


@pytest.mark.parametrize("limit", [1, 2, None])
async def test_nested_fan_outs_never_deadlock(limit: int | None) -> None:
    @function_pass(opt_level=0)
    async def Nest(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        if func == 0:
            return func
        inner = await Nest({f"f{n}": func - 1 for n in range(3)})
        return 1 + sum(inner.values())

    async with PassContext(max_concurrency=limit) as ctx:
        before = state_of(ctx).scheduler.free
        with anyio.fail_after(60):
            result = await Nest({f"f{n}": 4 for n in range(3)})
        assert state_of(ctx).scheduler.free == before
    assert result == {f"f{n}": 40 for n in range(3)}


# Context variables.


class Same:
    """A value that is equal to every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Incomparable:
    """A value that refuses to be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("no")

    def __hash__(self) -> int:
        return 0


def test_only_a_change_of_variables_is_detected() -> None:
    """Test the internals of CPython that `variables_of` reads, on each version."""
    context = copy_context()
    before = variables_of(context)
    assert variables_of(context.copy()) is before
    context.run(VAR.set, 1)
    changed = variables_of(context)
    assert changed is not before
    context.run(VAR.get)
    assert variables_of(context) is changed


def no_referents(context: object) -> list[object]:
    return []


@pytest.mark.parametrize("make", [object, list, Same, Incomparable], ids=["object", "list", "equal", "incomparable"])
@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda", "keep"])
@pytest.mark.parametrize("is_cpython", [True, False])
async def test_variable_set_in_body_is_invisible_to_others(
    make: Callable[[], object], kind: str, is_cpython: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_cpython:
        # Another interpreter may not report what a context refers to.
        monkeypatch.setattr(fan_out, "get_referents", no_referents)
    outside = make()
    VAR.set(outside)
    unchanged: list[bool] = []

    def plain(func: int, mod: Module, ctx: PassContext) -> int:
        unchanged.append(VAR.get() is outside)
        VAR.set(make())
        return func

    async def suspending(func: int, mod: Module, ctx: PassContext) -> int:
        plain(func, mod, ctx)
        value = VAR.get()
        await checkpoint()
        unchanged.append(VAR.get() is value)
        return func

    async def never_suspending(func: int, mod: Module, ctx: PassContext) -> int:
        return plain(func, mod, ctx)

    options: dict[str, Any] = {"on_error": "keep"} if kind == "keep" else {}
    bodies: dict[str, FunctionBody] = {
        "plain": plain,
        "async": never_suspending,
        "suspending": suspending,
        "lambda": lambda func, mod, ctx: suspending(func, mod, ctx),
        "keep": plain,
    }
    await function_pass_of(bodies[kind], 0, "Set", **options)({f"f{n}": n for n in range(50)})
    assert (unchanged, VAR.get() is outside) == ([True] * len(unchanged), True)
    assert len(unchanged) >= 50


async def test_late_worker_sees_no_variable_of_other_bodies() -> None:
    VAR.set("caller")
    values: list[object] = []
    may_end = anyio.Event()

    @function_pass(opt_level=0)
    async def Set(func: int, mod: Module, ctx: PassContext) -> int:
        values.append(VAR.get())
        VAR.set(func)
        # The module with two functions holds the second slot until another worker takes its second body.
        await (may_end.wait() if len(mod) == 2 else checkpoint())
        if len(values) > 8:
            may_end.set()
        return func

    async with PassContext(max_concurrency=2):
        await apass.optimize_all([{"f": 1, "g": 2}, {f"f{n}": n for n in range(40)}], Set)
    assert values == ["caller"] * 42


async def test_body_sees_variable_of_caller() -> None:
    VAR.set("caller")
    values: list[object] = []

    def record_variable(func: int, mod: Module, ctx: PassContext) -> int:
        values.append(VAR.get())
        return func

    await function_pass(record_variable, 0, "Record")({"f": 1, "g": 2})
    assert values == ["caller"] * 2


async def test_context_entered_in_body_is_invisible_to_others() -> None:
    @function_pass(opt_level=0)
    async def Enter(func: int, mod: Module, ctx: PassContext) -> int:
        assert PassContext.current() is ctx
        async with PassContext(opt_level=func):
            for _ in range(3):
                await checkpoint()
            level = PassContext.current().opt_level
        assert PassContext.current() is ctx
        return level

    assert await Enter({f"f{n}": n for n in range(20)}) == {f"f{n}": n for n in range(20)}
