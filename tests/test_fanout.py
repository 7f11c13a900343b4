"""The concurrent map under a function pass: workers, contextvars, failures, time limits."""

from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import DiagnosticLevel, PassContext, PassTimeoutError, Sequential, function_pass, module_pass
from tests.recording import FunctionBody, function_pass_of

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
        with anyio.fail_after(30):
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
        with anyio.fail_after(30):
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


# Failures.


async def wait_for_ever() -> None:
    await anyio.sleep_forever()


@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda"])
async def test_one_error_comes_out_as_itself_with_a_note_that_says_where(kind: str) -> None:
    error = KeyError("mine")

    def plain(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 2:
            raise error
        return func

    async def bad(func: int, mod: Module, ctx: PassContext) -> int:
        if kind != "async":
            await checkpoint()
        return plain(func, mod, ctx)

    bodies: dict[str, FunctionBody] = {"plain": plain, "lambda": lambda func, mod, ctx: bad(func, mod, ctx)}
    pipeline = Sequential([function_pass_of(bodies.get(kind, bad), 0, "Bad")], name="S")
    with pytest.raises(KeyError) as caught:
        await apass.optimize_all({"resnet": {"f": 1, "g": 2, "h": 3}}, pipeline)
    assert (caught.value is error, error.__notes__) == (True, ["in pass 'S > Bad', function 'g', module 'resnet'"])
    assert (error.__cause__, error.__context__) == (None, None)


async def test_the_first_failure_cancels_the_others() -> None:
    cancelled: list[int] = []
    all_wait = anyio.Event()

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 9:
            all_wait.set()
        try:
            await all_wait.wait()
            if func == 4:
                raise KeyError("mine")
            await wait_for_ever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(func)
            raise
        return func

    with pytest.raises(KeyError) as caught:
        await Bad({f"f{n}": n for n in range(10)})
    assert sorted(cancelled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert caught.value.__notes__ == ["in pass 'Bad', function 'f4'"]


async def test_several_errors_become_one_flat_group_each_with_its_note() -> None:
    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        try:
            await (checkpoint() if func == 0 else wait_for_ever())
        finally:
            # The first one fails of itself, the others while they are cancelled.
            raise ValueError(func)
        return func

    @function_pass(opt_level=0)
    async def Outer(func: int, mod: Module, ctx: PassContext) -> int:
        await Bad({f"f{n}": n for n in range(3)})
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Outer({"main": 0})
    flat = {(type(error), error.args, *error.__notes__) for error in caught.value.exceptions}
    note = "in pass 'Outer > Bad', function 'f{}', for function 'main' of 'Outer'"
    assert flat == {(ValueError, (n,), note.format(n)) for n in range(3)}


@pytest.mark.parametrize("functions", [1, 5])
async def test_a_group_that_a_body_raised_comes_out_as_itself(functions: int) -> None:
    own = ExceptionGroup("mine", [ValueError(1), ExceptionGroup("inner", [KeyError(2)])])

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        if func == 0:
            raise own
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Bad({f"f{n}": n for n in range(functions)})
    assert (caught.value is own, own.__notes__) == (True, ["in pass 'Bad', function 'f0'"])


async def test_a_task_group_in_a_body_that_is_cancelled_adds_nothing_to_the_error() -> None:
    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("mine")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait_for_ever)
        return func

    with pytest.raises(KeyError, match="mine"):
        await Bad({"f": 0, "g": 1, "h": 2})


async def test_a_task_group_in_a_body_that_fails_while_cancelled_adds_only_its_errors() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await wait_for_ever()
        finally:
            raise ValueError("while cancelled")

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("mine")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_ever)
            tasks.start_soon(fail_when_cancelled)
            await wait_for_ever()
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Bad({"f": 0, "g": 1})
    assert sorted(type(error).__name__ for error in caught.value.exceptions) == ["KeyError", "ValueError"]


async def test_an_error_that_is_raised_again_elsewhere_says_where_that_was() -> None:
    error = KeyError("one object for all")

    @module_pass(opt_level=0)
    async def Bad(mod: Module, ctx: PassContext) -> Module:
        raise error

    await apass.optimize_all({"a": {}, "b": {}}, Bad, errors="collect", limit=1)
    assert error.__notes__ == ["in pass 'Bad', module 'a'", "in pass 'Bad', module 'b'"]


# Time limits and failures that are kept.


@pytest.mark.parametrize("functions", [1, 3])
async def test_a_body_over_its_time_is_told_with_its_place(functions: int) -> None:
    @function_pass(opt_level=0, timeout=0.01)
    async def Slow(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await wait_for_ever()
        return func

    with pytest.raises(PassTimeoutError) as caught:
        await Slow({f"f{n}": n for n in range(functions)})
    assert str(caught.value) == "the body of pass 'Slow' took longer than 0.01 s"
    assert caught.value.__notes__ == ["in pass 'Slow', function 'f0'"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_body_that_never_suspends_is_over_its_time_too(is_async: bool) -> None:
    def block(func: int, mod: Module, ctx: PassContext) -> int:
        end = perf_counter() + 0.02
        while perf_counter() < end:
            pass
        return func + 1

    async def block_async(func: int, mod: Module, ctx: PassContext) -> int:
        return block(func, mod, ctx)

    with pytest.raises(PassTimeoutError):
        await function_pass_of(block_async if is_async else block, 0, "Block", timeout=0.001)({"f": 1, "g": 2})


async def test_keep_leaves_what_failed_as_it_was_with_a_warning() -> None:
    @function_pass(opt_level=0, timeout=0.01, on_error="keep")
    async def Try(func: int, mod: Module, ctx: PassContext) -> int:
        await (wait_for_ever() if func == 1 else checkpoint())
        if func == 2:
            raise KeyError("mine")
        return func * 10

    async with PassContext() as ctx:
        assert await apass.optimize_all({"m": {"a": 1, "b": 2, "c": 3}}, Try) == {"m": {"a": 1, "b": 2, "c": 30}}
    found = sorted(ctx.diag_ctx.diagnostics, key=lambda one: one.function or "")
    assert [(one.level, one.pass_name, one.function, one.module) for one in found] == [
        (DiagnosticLevel.WARNING, "Try", "a", "m"),
        (DiagnosticLevel.WARNING, "Try", "b", "m"),
    ]
    assert "took longer than 0.01 s" in found[0].message
    assert "KeyError: 'mine'" in found[1].message


async def test_keep_does_not_keep_a_cancellation() -> None:
    @function_pass(opt_level=0, on_error="keep")
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        await wait_for_ever()
        return func

    async with PassContext() as ctx:
        with anyio.move_on_after(0.01) as scope:
            await Wait({"f": 1, "g": 2})
    assert (scope.cancelled_caught, ctx.diag_ctx.diagnostics, ctx.gate.free) == (True, (), 256)
