"""Tracebacks show the frames of the user: the caller, bodies, hooks and analyses."""

import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import anyio
import anyio.lowlevel
import pytest

import apass
from apass import Pass, PassContext, PassInfo, PassInstrument
from apass.core.tracebacks import hide_runner_frames
from apass.errors import PassResultError

pytestmark = pytest.mark.anyio

HERE = Path(__file__).name
MODULE = {"f": 1, "g": 2}

Frames = list[tuple[str, str]]


def fail(value: object) -> NoReturn:
    raise ValueError(f"cannot do {value}")


@apass.function_pass(opt_level=0)
def inline_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return fail(func)


@apass.function_pass(opt_level=0)
async def async_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return fail(func)


@apass.function_pass(opt_level=0)
async def suspended_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    await anyio.lowlevel.checkpoint()
    return fail(func)


@apass.function_pass(opt_level=0, executor="thread")
def thread_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return fail(func)


@apass.function_pass(opt_level=0, executor="process")
def process_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return fail(func)


@apass.function_pass(opt_level=0, timeout=60)
async def limited_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return fail(func)


@apass.module_pass(opt_level=0)
async def module_body(mod: Any, ctx: PassContext) -> Any:
    return fail(mod)


@apass.module_pass(opt_level=0)
async def outer_body(mod: Any, ctx: PassContext) -> Any:
    return await suspended_body(mod)


@apass.analysis
async def failing_analysis(func: Any, ctx: PassContext) -> Any:
    return fail(func)


@apass.function_pass(opt_level=0)
async def analysing_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return await ctx.get(failing_analysis, func)


@apass.function_pass(opt_level=0, required=[failing_analysis])
async def requiring_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return func


@apass.function_pass(opt_level=0)
def forgetful_body(func: Any, mod: Any, ctx: PassContext) -> Any:
    return None


class FailingHook(PassInstrument):
    async def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        fail(info.name)


class FailingEntry(PassInstrument):
    def enter_pass_ctx(self) -> None:
        fail("entry")


def frames_of(error: BaseException) -> Frames:
    return [(Path(entry.filename).name, entry.name) for entry in traceback.extract_tb(error.__traceback__)]


def named(*names: str) -> Frames:
    return [(HERE, name) for name in names]


async def frames_below(call: Callable[..., Awaitable[object]], *args: Any) -> Frames:
    """Return the frames of the error of a call, below this one."""
    try:
        await call(*args)
    except Exception as error:
        return frames_of(error)[1:]
    pytest.fail("nothing was raised")


@pytest.mark.parametrize(
    ("pass_", "names"),
    [
        (inline_body, ["inline_body", "fail"]),
        (async_body, ["async_body", "fail"]),
        (suspended_body, ["suspended_body", "fail"]),
        (thread_body, ["thread_body", "fail"]),
        (limited_body, ["limited_body", "fail"]),
        (module_body, ["module_body", "fail"]),
        (outer_body, ["outer_body", "suspended_body", "fail"]),
        (analysing_body, ["analysing_body", "failing_analysis", "fail"]),
        (requiring_body, ["failing_analysis", "fail"]),
        (apass.Sequential([apass.Sequential([inline_body])]), ["inline_body", "fail"]),
        (apass.Repeat([suspended_body]), ["suspended_body", "fail"]),
        (apass.Race([suspended_body]), ["suspended_body", "fail"]),
    ],
)
async def test_traceback_shows_frames_of_body(pass_: Pass[Any], names: list[str]) -> None:
    assert await frames_below(pass_, {"f": 1}) == named(*names)
    assert await frames_below(pass_.run, {"f": 1}) == named(*names)
    assert await frames_below(pass_.run, {"f": 1}, PassContext()) == named(*names)
    assert await frames_below(apass.optimize_all, [{"f": 1}], pass_) == named(*names)


async def test_traceback_of_donated_module_is_short() -> None:
    async def donate() -> None:
        await inline_body({"f": 1}, donate=True)

    assert await frames_below(donate) == named("donate", "inline_body", "fail")


async def test_traceback_shows_frames_of_hook() -> None:
    async with PassContext(instruments=[FailingHook()]):
        assert await frames_below(inline_body, MODULE) == named("run_before_pass", "fail")


async def test_traceback_of_context_shows_entry_hook() -> None:
    context = PassContext(instruments=[FailingEntry()])
    assert await frames_below(context.__aenter__) == named("enter_pass_ctx", "fail")


async def test_traceback_of_outcome_shows_body() -> None:
    outcomes = await apass.optimize_all([{"f": 1}], inline_body, errors="collect")
    assert outcomes[0].error is not None
    assert frames_of(outcomes[0].error) == named("inline_body", "fail")
    with pytest.raises(ValueError, match="cannot do 1") as caught:
        outcomes[0].unwrap()
    assert frames_of(caught.value)[1:] == named("inline_body", "fail")


async def test_tracebacks_of_group_are_short() -> None:
    second_runs = anyio.Event()

    async def body(func: Any, mod: Any, ctx: PassContext) -> Any:
        try:
            if func == 2:
                second_runs.set()
                # The failure of the first body ends it.
                await anyio.sleep_forever()
            await second_runs.wait()
        finally:
            fail(func)

    with pytest.raises(BaseExceptionGroup) as caught:
        await apass.optimize_all([{"f": 1, "g": 2}], apass.function_pass(body, opt_level=0))
    group = cast("ExceptionGroup[Exception]", caught.value)
    assert [frames_of(error) for error in group.exceptions] == [named("body", "fail")] * 2
    assert frames_of(group)[1:] == [("fan_out.py", "results")]


async def test_tracebacks_of_causes_are_short() -> None:
    async def body(mod: Any, ctx: PassContext) -> Any:
        try:
            return await suspended_body(mod)
        except ValueError as error:
            raise KeyError("unknown") from error

    with pytest.raises(KeyError) as caught:
        await apass.module_pass(body, opt_level=0)({"f": 1})
    assert caught.value.__cause__ is not None
    assert frames_of(caught.value)[1:] == named("body")
    assert frames_of(caught.value.__cause__) == named("body", "suspended_body", "fail")


@pytest.mark.process
async def test_traceback_of_process_names_executor() -> None:
    assert await frames_below(process_body, {"f": 1}) == [("remote.py", "_body")]


async def test_mistake_keeps_frame_that_raises() -> None:
    assert await frames_below(forgetful_body, MODULE) == [("fan_out.py", "_reject")]


async def test_pytest_hides_frame_that_raises() -> None:
    with pytest.raises(PassResultError) as caught:
        await forgetful_body(MODULE)
    assert [entry.name for entry in caught.traceback.filter(caught)] == ["test_pytest_hides_frame_that_raises"]


async def test_bug_of_runner_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.passes.function_pass.select_functions", fail)
    expected = [("base.py", "__call__"), ("execute.py", "execute"), ("function_pass.py", "transform")]
    assert await frames_below(inline_body, MODULE) == [*expected]


async def test_full_tracebacks_show_runner_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_TRACEBACK", "full")
    files = [file for file, _ in await frames_below(inline_body, MODULE)]
    assert files == ["base.py", "execute.py", "function_pass.py", "function_pass.py", "fan_out.py", HERE, HERE]


async def test_frames_of_other_errors_remain() -> None:
    async def raise_in_group() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
            fail(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        await raise_in_group()
    before = frames_of(caught.value)
    hide_runner_frames(caught.value)
    assert frames_of(caught.value) == before


def test_run_shows_frames_of_body(anyio_backend_name: str) -> None:
    with pytest.raises(ValueError, match="cannot do 1") as caught:
        apass.run(outer_body, {"f": 1}, backend=anyio_backend_name)
    assert frames_of(caught.value)[1:] == named("outer_body", "suspended_body", "fail")
