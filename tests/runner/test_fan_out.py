"""The concurrent map under a function pass: workers and contextvars."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, function_pass
from tests.helpers.recording import FunctionBody, function_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
VAR: ContextVar[object] = ContextVar("VAR")


def modules_of(count: int, functions: int) -> list[Module]:
    return [{f"f{n}": n for n in range(functions)} for _ in range(count)]


# Workers.


async def test_a_plain_body_runs_in_the_task_of_the_caller() -> None:
    tasks: set[int] = set()

    def note(func: int, mod: Module, ctx: PassContext) -> int:
        tasks.add(anyio.get_current_task().id)
        return func

    await function_pass(note, 0, "Plain")({f"f{n}": n for n in range(100)})
    assert tasks == {anyio.get_current_task().id}


async def test_bodies_that_never_suspend_run_in_one_task_in_order() -> None:
    seen: list[int] = []
    tasks: set[int] = set()

    @function_pass(opt_level=0)
    async def Count(func: int, mod: Module, ctx: PassContext) -> int:
        seen.append(func)
        tasks.add(anyio.get_current_task().id)
        return func

    async with PassContext() as ctx:
        ctx.gate.turn_ends = float("inf")
        await Count({f"f{n}": n for n in range(100)})
    assert (seen, tasks) == (list(range(100)), {anyio.get_current_task().id})


@pytest.mark.parametrize(("limit", "in_flight"), [(1, 2), (2, 3), (7, 8), (256, 20), (None, 20)])
async def test_so_many_bodies_are_in_flight_beside_the_caller(limit: int | None, in_flight: int) -> None:
    async with PassContext(max_concurrency=limit) as ctx:
        before = ctx.gate.free
        assert await most_in_flight(20, lambda pass_: pass_(modules_of(1, 20)[0])) == in_flight
        assert ctx.gate.free == before


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_callers_share_the_slots_of_their_context(limit: int) -> None:
    async with PassContext(max_concurrency=limit):
        assert await most_in_flight(60, lambda pass_: apass.optimize_all(modules_of(5, 12), pass_)) == 5 + limit


async def test_who_was_refused_a_slot_gets_one_that_becomes_free() -> None:
    let_go, gone, both = anyio.Event(), anyio.Event(), anyio.Event()
    met: list[int] = []

    @function_pass(opt_level=0)
    async def Hold(func: int, mod: Module, ctx: PassContext) -> int:
        await let_go.wait()
        return func

    @function_pass(opt_level=0)
    async def Want(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await checkpoint()
            let_go.set()
            await gone.wait()
            return func
        met.append(func)
        if len(met) == 2:
            both.set()
        await both.wait()
        return func

    async def hold() -> None:
        await Hold({"f": 1, "g": 2})
        gone.set()

    with anyio.fail_after(60):
        async with PassContext(max_concurrency=1), anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await anyio.wait_all_tasks_blocked()
            await Want({f"f{n}": n for n in range(3)})


async def test_bodies_that_wait_for_one_round_of_the_loop_need_few_workers() -> None:
    tasks: set[int] = set()

    @function_pass(opt_level=0)
    async def WaitOnce(func: int, mod: Module, ctx: PassContext) -> int:
        tasks.add(anyio.get_current_task().id)
        await checkpoint()
        return func

    async with PassContext() as ctx:
        ctx.gate.turn_ends = float("inf")
        await WaitOnce({f"f{n}": n for n in range(1000)})
    assert 2 < len(tasks) < 32


@pytest.mark.parametrize("every", [1, 2, 5])
async def test_bodies_that_wait_get_all_the_workers_though_others_are_quick(every: int) -> None:
    waiting: list[int] = []
    enough = anyio.Event()

    @function_pass(opt_level=0)
    async def Mixed(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        if func >= 200 and func % every == 0:
            waiting.append(func)
            if len(waiting) == 100:
                enough.set()
            await enough.wait()
        return func

    async with PassContext(max_concurrency=99):
        with anyio.fail_after(60):
            await Mixed({f"f{n}": n for n in range(200 + 100 * every)})
    assert len(waiting) == 100


async def most_in_flight(bodies: int, work: Callable[[apass.Pass[Module]], Any]) -> int:
    """Return how many of so many bodies were in flight at most, where none ends while another can be begun."""
    waiting: list[anyio.Event] = []
    counts = [0]

    @function_pass(opt_level=0)
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        waiting.append(anyio.Event())
        await waiting[-1].wait()
        return func

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work, Wait)
        while sum(counts) < bodies:
            # Far more turns of the loop than it takes to begin all the bodies that may be begun.
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
        before = ctx.gate.free
        with anyio.fail_after(60):
            result = await Nest({f"f{n}": 4 for n in range(3)})
        assert ctx.gate.free == before
    assert result == {f"f{n}": 40 for n in range(3)}


# Contextvars.


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


@pytest.mark.parametrize("make", [object, list, Same, Incomparable], ids=["object", "list", "equal", "incomparable"])
@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda", "keep"])
async def test_what_a_body_sets_no_other_sees(make: Callable[[], object], kind: str) -> None:
    outside = make()
    VAR.set(outside)
    seen: list[bool] = []

    def plain(func: int, mod: Module, ctx: PassContext) -> int:
        seen.append(VAR.get() is outside)
        VAR.set(make())
        return func

    async def suspending(func: int, mod: Module, ctx: PassContext) -> int:
        plain(func, mod, ctx)
        mine = VAR.get()
        await checkpoint()
        seen.append(VAR.get() is mine)
        return func

    async def never_suspending(func: int, mod: Module, ctx: PassContext) -> int:
        return plain(func, mod, ctx)

    guards: dict[str, Any] = {"on_error": "keep"} if kind == "keep" else {}
    bodies: dict[str, FunctionBody] = {
        "plain": plain,
        "async": never_suspending,
        "suspending": suspending,
        "lambda": lambda func, mod, ctx: suspending(func, mod, ctx),
        "keep": plain,
    }
    await function_pass_of(bodies[kind], 0, "Set", **guards)({f"f{n}": n for n in range(50)})
    assert (seen, VAR.get() is outside) == ([True] * len(seen), True)
    assert len(seen) >= 50


async def test_a_worker_that_was_sent_for_late_sees_nothing_that_bodies_set() -> None:
    VAR.set("caller")
    seen: list[object] = []
    late = anyio.Event()

    @function_pass(opt_level=0)
    async def Set(func: int, mod: Module, ctx: PassContext) -> int:
        seen.append(VAR.get())
        VAR.set(func)
        # The module of two functions holds the second slot until a worker of the other one has taken its second body.
        await (late.wait() if len(mod) == 2 else checkpoint())
        if len(seen) > 8:
            late.set()
        return func

    async with PassContext(max_concurrency=2):
        await apass.optimize_all([{"f": 1, "g": 2}, {f"f{n}": n for n in range(40)}], Set)
    assert seen == ["caller"] * 42


async def test_a_body_sees_what_the_caller_set() -> None:
    VAR.set("caller")
    seen: list[object] = []

    def look(func: int, mod: Module, ctx: PassContext) -> int:
        seen.append(VAR.get())
        return func

    await function_pass(look, 0, "Look")({"f": 1, "g": 2})
    assert seen == ["caller"] * 2


async def test_a_context_entered_in_a_body_is_seen_by_no_other() -> None:
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
