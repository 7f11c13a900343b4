"""Debug mode: each mistake is reported with its place in the user's code."""

import gc
import sys
import time
from collections.abc import Callable
from contextvars import Context
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

import apass
from apass import Pass, PassContext, PassInfo
from apass.errors import DebugError, DebugWarning, PassResultError, VerifyError
from apass.instruments import DebugInstrument, HonestChangeInstrument, PassTimingInstrument, VerifyInstrument

pytestmark = pytest.mark.anyio

HERE = Path(__file__)
MODULE = {"f": 1}

BACKGROUND: list[TaskGroup] = []
"""The task group that outlives the passes of a test."""


async def cost_of(func: Any) -> int:
    return 1


def line_of(text: str) -> str:
    """Return the place of the first line of this file that contains `text`."""
    lines = HERE.read_text().splitlines()
    place = f"{HERE}:{1 + next(index for index, line in enumerate(lines) if text in line)}"
    return place.removeprefix(f"{Path.cwd()}/")


@apass.function_pass(opt_level=0)
async def forget_await(func: Any, mod: Any, ctx: PassContext) -> Any:
    _ = cost_of("forgotten")
    await checkpoint()
    return func


@apass.module_pass(opt_level=0)
async def return_coroutine(mod: Any, ctx: PassContext) -> Any:
    return {**mod, "f": cost_of("returned")}


@apass.module_pass(opt_level=0)
async def add_coroutine(mod: Any, ctx: PassContext) -> Any:
    # Not a variable, which the traceback would keep.
    return cast("Any", cost_of("added")) + 1


@apass.function_pass(opt_level=0)
async def leave_task(func: Any, mod: Any, ctx: PassContext) -> Any:
    BACKGROUND[0].start_soon(anyio.sleep_forever)
    await checkpoint()
    return func


@apass.function_pass(opt_level=0)
class Count:
    def __init__(self) -> None:
        self.count = 0

    def transform_function(self, func: Any, mod: Any, ctx: PassContext) -> Any:
        self.count += func
        return func


class Collect(apass.ModulePass[Any]):
    info = PassInfo(0, "Collect")

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def transform_module(self, mod: Any, ctx: PassContext) -> Any:
        self.seen.update(mod)
        return mod


class Slotted(apass.ModulePass[Any]):
    __slots__ = ("last",)
    info = PassInfo(0, "Slotted")

    def transform_module(self, mod: Any, ctx: PassContext) -> Any:
        self.last = mod
        return mod


class Cached(apass.ModulePass[Any]):
    info = PassInfo(0, "Cached")

    @cached_property
    def table(self) -> list[int]:
        return [1, 2]

    def transform_module(self, mod: Any, ctx: PassContext) -> Any:
        return {**mod, "f": self.table[0] + mod["f"]}


async def run_with(pass_: Pass[Any], mod: Any, **options: Any) -> Any:
    # The limit is no matter of luck on a busy machine.
    options = {"instruments": [DebugInstrument(slow=60)], **options}
    async with PassContext(**options):
        return await apass.Sequential([pass_])(mod)


FORGOTTEN = "pass 'forget_await', function 'f' did not await the coroutine 'cost_of'"
COROUTINE = "the coroutine 'cost_of', which is not a function; forgot await?"
SHARED = "which all runs of the pass share; use a local variable or a ContextVar"


@pytest.mark.parametrize(
    ("factory", "message", "line"),
    [
        (lambda: forget_await, FORGOTTEN, '("forgotten")'),
        (lambda: return_coroutine, f"pass 'return_coroutine', for function 'f', returned {COROUTINE}", '("returned")'),
        (Count, f"pass 'Count' changed its attribute 'count', {SHARED}", "self.count += func"),
        (Collect, f"pass 'Collect' changed its attribute 'seen', {SHARED}", "self.seen.update"),
        (Slotted, f"pass 'Slotted' changed its attribute 'last', {SHARED}", "self.last = mod"),
    ],
)
async def test_mistake_is_reported_with_its_place(factory: Callable[[], Pass[Any]], message: str, line: str) -> None:
    with pytest.raises(DebugError) as caught:
        await run_with(factory(), MODULE)
    assert str(caught.value) == f"{message}, at {line_of(line)}"


async def test_task_left_running_is_reported() -> None:
    async with anyio.create_task_group() as group:
        BACKGROUND[:] = [group]
        with pytest.raises(DebugError) as caught:
            await run_with(leave_task, MODULE)
        message = "pass 'leave_task', function 'f' ended while its task 'sleep_forever' was running; use a task group"
        assert str(caught.value) == f"{message}, at {line_of('start_soon(anyio.sleep_forever)')}"
        group.cancel_scope.cancel()


async def test_tasks_of_others_are_not_reported() -> None:
    @apass.function_pass(opt_level=0)
    async def body(func: Any, mod: Any, ctx: PassContext) -> Any:
        async with anyio.create_task_group() as inner:
            inner.start_soon(checkpoint)
        return func

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        assert await run_with(body, {str(index): index for index in range(20)}) == {
            str(index): index for index in range(20)
        }
        group.cancel_scope.cancel()


async def test_failed_pass_notes_forgotten_await() -> None:
    with pytest.raises(TypeError) as caught:
        await run_with(add_coroutine, MODULE)
    place = line_of('cost_of("added")')
    assert caught.value.__notes__ == [
        "in pass 'sequential > add_coroutine'",
        f"pass 'add_coroutine' did not await the coroutine 'cost_of', at {place}",
    ]


async def test_broken_module_notes_place_of_pass() -> None:
    @apass.module_pass(opt_level=0)
    def lose(mod: Any, ctx: PassContext) -> Any:
        return {**mod, "f": None}

    with pytest.raises(VerifyError, match="pass 'lose' broke the module") as caught:
        await run_with(lose, MODULE)
    assert caught.value.__notes__[-1].startswith("pass 'lose' is defined at ")


async def test_changed_input_is_reported() -> None:
    @apass.module_pass(opt_level=0)
    def clear(mod: Any, ctx: PassContext) -> Any:
        mod.clear()
        return mod

    with pytest.raises(VerifyError, match="changed its input in place"):
        await run_with(clear, {"f": 1})


def hold_loop() -> None:
    time.sleep(0.1)  # held


@pytest.mark.parametrize("kind", ["plain", "async", "module"])
async def test_slow_body_is_reported_once(kind: str) -> None:
    def plain(func: Any, mod: Any, ctx: PassContext) -> Any:
        hold_loop()
        return func

    async def suspended(func: Any, mod: Any, ctx: PassContext) -> Any:
        await checkpoint()
        return plain(func, mod, ctx)

    def module(mod: Any, ctx: PassContext) -> Any:
        return plain(mod, mod, ctx)

    if kind == "module":
        pass_: Any = apass.module_pass(module, opt_level=0, name="Slow")
    else:
        pass_ = apass.function_pass(plain if kind == "plain" else suspended, opt_level=0, name="Slow")
    with pytest.warns(DebugWarning) as caught:
        await run_with(pass_, {"f": 1, "g": 2}, instruments=[DebugInstrument(slow=0.05)])
    # On a busy machine, the steps around may take long too.
    reported = [warning for warning in caught if str(warning.message).startswith("pass 'Slow'")]
    function = "" if kind == "module" else ", function 'f'"
    assert len(reported) == 1
    assert str(reported[0].message).startswith(f"pass 'Slow'{function} held the loop for 0.")
    assert str(reported[0].message).endswith(f" s, at {line_of('# held')}")
    assert (reported[0].filename, reported[0].lineno) == (str(HERE), int(line_of("# held").rpartition(":")[2]))


async def test_correct_passes_run_in_debug_mode() -> None:
    assert await run_with(Cached(), {"f": 1}) == {"f": 2}
    results = await run_with(apass.Repeat([Cached()], times=2), {"f": 1})
    assert results == {"f": 3}


async def test_context_is_unused_if_only_read() -> None:
    with pytest.warns(DebugWarning, match="a PassContext was created and never entered"):
        assert PassContext(instruments=[DebugInstrument()]).opt_level == 2


async def test_unused_context_is_reported() -> None:
    def create() -> None:
        PassContext(instruments=[PassTimingInstrument(), DebugInstrument()])  # unused
        gc.collect()

    with pytest.warns(DebugWarning) as caught:
        create()
    message = "a PassContext was created and never entered; use it with `async with`"
    assert [str(warning.message) for warning in caught] == [f"{message}, at {line_of('# unused')}"]


async def test_debug_instrument_brings_others() -> None:
    debug, mine = DebugInstrument(), VerifyInstrument("always")
    async with PassContext(instruments=[debug]) as ctx, PassContext() as inner:
        assert ([type(one) for one in ctx.instruments[:2]], ctx.instruments[2]) == (
            [VerifyInstrument, HonestChangeInstrument],
            debug,
        )
        assert inner.instruments == ()
        await ctx.override_instruments([mine, debug])
        assert ctx.instruments[1:] == (mine, debug)


def test_environment_enables_debug_mode(monkeypatch: pytest.MonkeyPatch, anyio_backend_name: str) -> None:
    monkeypatch.setenv("APASS_DEBUG", "1")
    with pytest.raises(DebugError, match="did not await the coroutine 'cost_of'"):
        # Another test may have created the default context of this thread.
        Context().run(partial(apass.run, forget_await, MODULE, backend=anyio_backend_name))
    monkeypatch.setenv("APASS_DEBUG", "0")
    assert PassContext().instruments == ()


async def test_overridden_instruments_keep_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_DEBUG", "1")
    async with PassContext() as ctx:
        before = ctx.instruments
        mine = VerifyInstrument("always")
        await ctx.override_instruments([mine])
        assert ctx.instruments == (before[1], mine, before[2])
        await ctx.override_instruments([])
        assert ctx.instruments[1:] == before[1:]


async def test_returned_coroutine_notes_place_of_pass() -> None:
    async def body(func: Any, mod: Any, ctx: PassContext) -> Any:
        return cost_of(func)

    with pytest.raises(PassResultError, match="forgot await") as caught:
        await run_with(apass.function_pass(body, opt_level=0), MODULE)
    assert caught.value.__notes__[-1].startswith("pass 'body' is defined at ")


async def test_python_warns_again_after_run() -> None:
    await run_with(Cached(), {"f": 1})
    coroutines = [cost_of(1)]
    with pytest.warns(RuntimeWarning, match="cost_of"):
        coroutines.clear()


@pytest.mark.parametrize("executor", ["thread", pytest.param("process", marks=pytest.mark.process)])
async def test_workers_report_mistakes(executor: Any) -> None:
    async with PassContext(instruments=[DebugInstrument(slow=60)]):
        with pytest.raises(DebugError, match="did not await the coroutine 'cost_of'"):
            await apass.optimize_all({"m": MODULE}, forget_await, executor=executor)


async def test_slow_bodies_of_workers_are_reported_once() -> None:
    async def body(func: Any, mod: Any, ctx: PassContext) -> Any:
        hold_loop()
        return func

    slow = apass.function_pass(body, opt_level=0, name="Slow")
    with pytest.warns(DebugWarning) as caught:
        async with PassContext(instruments=[DebugInstrument(slow=0.05)]):
            await apass.optimize_all({"m": MODULE, "n": MODULE}, slow, executor="thread")
    assert [str(warning.message).rpartition(", at ")[2] for warning in caught] == [line_of("# held")]


@pytest.mark.parametrize("slow", [0, -1, "x"])
def test_slow_must_be_positive(slow: Any) -> None:
    with pytest.raises(ValueError, match="slow must be a positive number of seconds"):
        DebugInstrument(slow)


async def test_coroutines_are_fast_after_debug_mode() -> None:
    @apass.module_pass(opt_level=0, name="keep")
    async def keep(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        assert sys.get_coroutine_origin_tracking_depth() == 40
        return mod

    before = sys.get_coroutine_origin_tracking_depth()
    async with apass.PassContext(instruments=[DebugInstrument()]):
        await keep({"f": 1})
    assert sys.get_coroutine_origin_tracking_depth() == before < 40
