"""The hooks around the bodies of function passes."""

from collections.abc import Generator
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.core.run import Run

pytestmark = pytest.mark.anyio


@apass.pass_instrument
class Watcher:
    """Notes every hook around a body."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.steps: dict[str | None, int] = {}

    def run_before_function(self, func: Any, run: Run) -> None:
        self.seen.append(("before", run.function, func))

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        self.seen.append(("after", run.function, func, result))

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        self.seen.append(("failed", run.function, func, type(error).__name__))

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        assert start <= end
        self.steps[run.function] = self.steps.get(run.function, 0) + 1


async def run_watched(body: Any, mod: dict[str, Any], **options: Any) -> tuple[Watcher, Any]:
    """Run a function pass made of `body` under a watcher."""
    watcher = Watcher()
    make: Any = apass.function_pass
    pass_ = make(body, opt_level=0, name="Body", **options)
    async with apass.PassContext(instruments=[watcher]):
        try:
            result: Any = await pass_(mod)
            return watcher, result
        except Exception as error:
            return watcher, error


def add_one(func: int, mod: Any, ctx: Any) -> int:
    return func + 1


async def add_one_later(func: int, mod: Any, ctx: Any) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


def add_one_by_another(func: int, mod: Any, ctx: Any) -> Any:
    return add_one_later(func, mod, ctx)


@pytest.mark.parametrize("body", [add_one, add_one_later, add_one_by_another])
async def test_each_body_is_announced_and_ends_once(body: Any) -> None:
    watcher, result = await run_watched(body, {"f": 1, "g": 5})
    assert result == {"f": 2, "g": 6}
    wanted = [("before", "f", 1), ("after", "f", 1, 2), ("before", "g", 5), ("after", "g", 5, 6)]
    assert sorted(watcher.seen) == sorted(wanted)
    assert watcher.steps.keys() == {"f", "g"}


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_body_that_fails_is_told_of_as_failed(is_late: bool) -> None:
    def fail(func: int, mod: Any, ctx: Any) -> int:
        raise ValueError(func)

    async def fail_later(func: int, mod: Any, ctx: Any) -> int:
        await anyio.lowlevel.checkpoint()
        raise ValueError(func)

    watcher, error = await run_watched(fail_later if is_late else fail, {"f": 1})
    assert isinstance(error, ValueError)
    assert watcher.seen == [("before", "f", 1), ("failed", "f", 1, "ValueError")]


async def test_a_cancelled_body_is_told_of_as_failed() -> None:
    async def wait(func: int, mod: Any, ctx: Any) -> int:
        if func == 2:
            raise ValueError(func)
        await anyio.sleep_forever()
        return func

    watcher, error = await run_watched(wait, {"f": 1, "g": 2})
    assert isinstance(error, ValueError)
    assert [one[:2] for one in watcher.seen if one[0] == "failed"] in (
        [("failed", "f"), ("failed", "g")],
        [("failed", "g"), ("failed", "f")],
    )


async def test_a_kept_body_ends_with_its_function_as_it_was() -> None:
    def fail(func: int, mod: Any, ctx: Any) -> int:
        raise ValueError(func)

    watcher, result = await run_watched(fail, {"f": 1}, on_error="keep")
    assert (result, watcher.seen) == ({"f": 1}, [("before", "f", 1), ("after", "f", 1, 1)])


async def test_coroutines_that_a_failed_plain_pass_leaves_are_closed() -> None:
    def body(func: int, mod: Any, ctx: Any) -> Any:
        if func == 2:
            raise ValueError(func)
        return add_one_later(func, mod, ctx)

    watcher, error = await run_watched(body, {"f": 1, "g": 2})
    assert isinstance(error, ValueError)
    assert watcher.seen[0] == ("before", "f", 1)


async def test_what_a_failure_hook_raises_is_noted() -> None:
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


async def test_statistics_and_remarks_reach_the_instruments_with_their_origin() -> None:
    @apass.pass_instrument
    class Listener:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
            self.heard.append((run and (run.path, run.function), name, amount))

        def on_remark(self, remark: apass.Remark) -> None:
            self.heard.append((remark.kind.value, remark.name, remark.pass_name, remark.function, dict(remark.args)))

    def body(func: int, mod: Any, ctx: apass.PassContext) -> int:
        ctx.statistic("seen", 2)
        ctx.remark(apass.Remark.missed("TooBig", "not done", size=3))
        return func

    listener = Listener()
    async with apass.PassContext(instruments=[listener]):
        await apass.Sequential([apass.function_pass(body, opt_level=0, name="Body")])({"f": 1})
    assert listener.heard == [
        ((("sequential", "Body"), "f"), "seen", 2),
        ("missed", "TooBig", "Body", "f", {"size": 3}),
    ]


async def test_the_step_of_a_plain_body_that_fails_is_reported_too() -> None:
    def fail(func: int, mod: dict[str, Any], ctx: apass.PassContext) -> int:
        raise ValueError("no")

    watcher = Watcher()
    with pytest.raises(ValueError, match="no"):
        async with apass.PassContext(instruments=[watcher]):
            await apass.function_pass(fail, opt_level=0)({"f": 1})
    assert (watcher.steps, watcher.seen) == ({"f": 1}, [("before", "f", 1), ("failed", "f", 1, "ValueError")])


class Later:
    """What can be awaited and is no coroutine."""

    def __init__(self, result: int) -> None:
        self.result = result

    def __await__(self) -> Generator[Any, Any, int]:
        yield from anyio.lowlevel.checkpoint().__await__()
        return self.result


async def test_what_a_plain_body_returns_may_be_anything_that_can_be_awaited() -> None:
    def later(func: int, mod: dict[str, Any], ctx: apass.PassContext) -> Any:
        return Later(func + 1)

    watcher, made = await run_watched(later, {"f": 1, "g": 2})
    assert made == {"f": 2, "g": 3}
    assert sorted(watcher.seen) == [("after", "f", 1, 2), ("after", "g", 2, 3), ("before", "f", 1), ("before", "g", 2)]
