"""Instrument hooks around the bodies of function passes."""

from collections.abc import Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.core.run import Run

pytestmark = pytest.mark.anyio


@apass.pass_instrument
class HookRecorder:
    """Records every hook call around a body."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.steps: dict[str | None, int] = {}

    def run_before_function(self, func: Any, run: Run) -> None:
        self.calls.append(("before", run.function, func))

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        self.calls.append(("after", run.function, func, result))

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        self.calls.append(("failed", run.function, func, type(error).__name__))

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        assert start <= end
        self.steps[run.function] = self.steps.get(run.function, 0) + 1


async def run_recorded(body: Any, mod: dict[str, Any], **options: Any) -> tuple[HookRecorder, Any]:
    """Run a function pass with body `body` under a `HookRecorder`."""
    recorder = HookRecorder()
    declare: Any = apass.function_pass
    pass_ = declare(body, opt_level=0, name="Body", **options)
    async with apass.PassContext(instruments=[recorder]):
        try:
            result: Any = await pass_(mod)
            return recorder, result
        except Exception as error:
            return recorder, error


def add_one(func: int, mod: Any, ctx: Any) -> int:
    return func + 1


async def add_one_later(func: int, mod: Any, ctx: Any) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


def delegate_add_one(func: int, mod: Any, ctx: Any) -> Any:
    return add_one_later(func, mod, ctx)


@pytest.mark.parametrize("body", [add_one, add_one_later, delegate_add_one])
async def test_hooks_surround_each_body_once(body: Any) -> None:
    recorder, result = await run_recorded(body, {"f": 1, "g": 5})
    assert result == {"f": 2, "g": 6}
    expected = [("before", "f", 1), ("after", "f", 1, 2), ("before", "g", 5), ("after", "g", 5, 6)]
    assert sorted(recorder.calls) == sorted(expected)
    assert recorder.steps.keys() == {"f", "g"}


@pytest.mark.parametrize("is_async", [False, True])
async def test_failure_hook_runs_when_body_raises(is_async: bool) -> None:
    def fail(func: int, mod: Any, ctx: Any) -> int:
        raise ValueError(func)

    async def fail_later(func: int, mod: Any, ctx: Any) -> int:
        await anyio.lowlevel.checkpoint()
        raise ValueError(func)

    recorder, error = await run_recorded(fail_later if is_async else fail, {"f": 1})
    assert isinstance(error, ValueError)
    assert recorder.calls == [("before", "f", 1), ("failed", "f", 1, "ValueError")]


async def test_failure_hook_runs_when_body_is_cancelled() -> None:
    async def wait(func: int, mod: Any, ctx: Any) -> int:
        if func == 2:
            raise ValueError(func)
        await anyio.sleep_forever()
        return func

    recorder, error = await run_recorded(wait, {"f": 1, "g": 2})
    assert isinstance(error, ValueError)
    assert [call[:2] for call in recorder.calls if call[0] == "failed"] in (
        [("failed", "f"), ("failed", "g")],
        [("failed", "g"), ("failed", "f")],
    )


async def test_after_hook_gets_function_kept_by_on_error() -> None:
    def fail(func: int, mod: Any, ctx: Any) -> int:
        raise ValueError(func)

    recorder, result = await run_recorded(fail, {"f": 1}, on_error="keep")
    assert (result, recorder.calls) == ({"f": 1}, [("before", "f", 1), ("after", "f", 1, 1)])


async def test_coroutines_of_failed_plain_pass_are_closed() -> None:
    def body(func: int, mod: Any, ctx: Any) -> Any:
        if func == 2:
            raise ValueError(func)
        return add_one_later(func, mod, ctx)

    recorder, error = await run_recorded(body, {"f": 1, "g": 2})
    assert isinstance(error, ValueError)
    assert recorder.calls[0] == ("before", "f", 1)


async def test_error_of_failure_hook_is_added_as_note() -> None:
    @apass.pass_instrument
    class Broken:
        def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
            raise RuntimeError("broken hook")

    def fail(func: int, mod: Any, ctx: Any) -> int:
        raise ValueError(func)

    async with apass.PassContext(instruments=[Broken()]):
        with pytest.raises(ValueError, match="1") as caught:
            await apass.function_pass(fail, opt_level=0)({"f": 1})
    assert "and then a run_after_function_failed raised RuntimeError: broken hook" in caught.value.__notes__


async def test_statistics_and_remarks_carry_their_origin() -> None:
    @apass.pass_instrument
    class EventRecorder:
        def __init__(self) -> None:
            self.events: list[Any] = []

        def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
            self.events.append((run and (run.path, run.function), name, amount))

        def on_remark(self, remark: apass.Remark) -> None:
            self.events.append((remark.kind.value, remark.name, remark.pass_name, remark.function, dict(remark.args)))

    def body(func: int, mod: Any, ctx: apass.PassContext) -> int:
        ctx.statistic("seen", 2)
        ctx.remark(apass.Remark.missed("TooBig", "not done", size=3))
        return func

    recorder = EventRecorder()
    async with apass.PassContext(instruments=[recorder]):
        await apass.Sequential([apass.function_pass(body, opt_level=0, name="Body")])({"f": 1})
    assert recorder.events == [
        ((("sequential", "Body"), "f"), "seen", 2),
        ("missed", "TooBig", "Body", "f", {"size": 3}),
    ]


async def test_step_of_failing_plain_body_is_reported() -> None:
    def fail(func: int, mod: dict[str, Any], ctx: apass.PassContext) -> int:
        raise ValueError("no")

    recorder = HookRecorder()
    with pytest.raises(ValueError, match="no"):
        async with apass.PassContext(instruments=[recorder]):
            await apass.function_pass(fail, opt_level=0)({"f": 1})
    assert (recorder.steps, recorder.calls) == ({"f": 1}, [("before", "f", 1), ("failed", "f", 1, "ValueError")])


class Later:
    """An awaitable that is not a coroutine."""

    def __init__(self, result: int) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, Any, int]:
        yield from anyio.lowlevel.checkpoint().__await__()
        return self.result


async def test_plain_body_may_return_any_awaitable() -> None:
    def later(func: int, mod: dict[str, Any], ctx: apass.PassContext) -> Any:
        return Later(func + 1)

    recorder, result = await run_recorded(later, {"f": 1, "g": 2})
    assert result == {"f": 2, "g": 3}
    assert sorted(recorder.calls) == [
        ("after", "f", 1, 2),
        ("after", "g", 2, 3),
        ("before", "f", 1),
        ("before", "g", 2),
    ]
