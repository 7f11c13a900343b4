"""Many modules: keys and order, outcomes, back-pressure, and what a failure does."""

from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterator
from contextlib import aclosing
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, module_pass, optimize_all, optimize_stream
from apass.errors import PassContextError
from apass.testing import RecordingInstrument
from tests.helpers.context_state import state_of
from tests.helpers.recording import module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


@module_pass(opt_level=0)
async def Double(mod: Module, ctx: PassContext) -> Module:
    """Suspends longer for a larger `f`, and fails for a negative one."""
    for _ in range(mod["f"]):
        await checkpoint()
    if mod["f"] < 0:
        raise KeyError(mod["f"])
    return {"f": 2 * mod["f"]}


@module_pass(opt_level=0)
async def Wait(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep_forever()
    return mod


class Source:
    """An endless async iterable that counts its requests and records its closing."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[Module]:
        try:
            while True:
                await checkpoint()
                self.asked += 1
                yield {"f": self.asked}
        finally:
            self.closed = True


# Keys and order.


@pytest.mark.parametrize("limit", [1, 2, 256, None])
async def test_results_have_keys_and_order_of_mapping(limit: int | None) -> None:
    modules: dict[Hashable, Module] = {
        "b": {"f": 9},
        ("a", 1): {"f": 0},
        None: {"f": 5},
        frozenset[int](): {"f": 1},
        1.5: {"f": 3},
    }
    before = {key: dict(mod) for key, mod in modules.items()}
    done = await optimize_all(modules, Double, limit=limit)
    assert list(done.items()) == [(key, {"f": 2 * mod["f"]}) for key, mod in before.items()]
    assert modules == before


@pytest.mark.parametrize("limit", [1, 3, None])
async def test_results_have_the_order_of_the_iterable(limit: int | None) -> None:
    numbers = [7, 0, 3, 9, 1]
    expect = [{"f": 2 * n} for n in numbers]
    assert await optimize_all([{"f": n} for n in numbers], Double, limit=limit) == expect
    assert await optimize_all(({"f": n} for n in numbers), Double, limit=limit) == expect
    assert await optimize_all(tuple({"f": n} for n in numbers), Double, limit=limit) == expect


async def test_no_modules_give_no_results() -> None:
    nothing: dict[str, Module] = {}
    assert (await optimize_all(nothing, Double), await optimize_all([], Double)) == ({}, [])


async def test_collect_returns_an_outcome_for_each_module() -> None:
    modules = {"good": {"f": 1}, "bad": {"f": -1}, "fine": {"f": 2}}
    done = await optimize_all(modules, Double, errors="collect")
    assert [(key, one.name, one.module, type(one.error)) for key, one in done.items()] == [
        ("good", "good", {"f": 2}, type(None)),
        ("bad", "bad", None, KeyError),
        ("fine", "fine", {"f": 4}, type(None)),
    ]
    assert done["good"].unwrap() == {"f": 2}
    with pytest.raises(KeyError) as caught:
        done["bad"].unwrap()
    assert caught.value.__notes__ == ["in pass 'Double', module 'bad'"]


async def test_outcome_seconds_measure_the_passes() -> None:
    spent: dict[int, float] = {}

    @module_pass(opt_level=0)
    async def Measured(mod: Module, ctx: PassContext) -> Module:
        start = perf_counter()
        await checkpoint()
        spent[mod["f"]] = perf_counter() - start
        if mod["f"]:
            raise KeyError(mod["f"])
        return mod

    before = perf_counter()
    done = await optimize_all([{"f": 0}, {"f": 1}], Measured, errors="collect")
    in_all = perf_counter() - before
    assert all(spent[place] < one.seconds < in_all for place, one in enumerate(done))


async def test_collect_of_an_iterable_gives_a_list() -> None:
    done = await optimize_all([{"f": -1}, {"f": 1}], Double, errors="collect")
    assert [(one.name, one.module) for one in done] == [(0, None), (1, {"f": 2})]


# Failures.


async def test_raise_cancels_other_modules() -> None:
    log: list[str] = []

    @module_pass(opt_level=0)
    async def FailOne(mod: Module, ctx: PassContext) -> Module:
        if mod["f"] == 1:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("mine")
        try:
            await anyio.sleep_forever()
        finally:
            log.append("cancelled")
        return mod

    with pytest.raises(KeyError) as caught:
        await optimize_all([{"f": 0}, {"f": 1}, {"f": 2}], FailOne)
    assert (caught.value.args, log) == (("mine",), ["cancelled"] * 2)


async def test_errors_of_cancelled_modules_join_one_group() -> None:
    @module_pass(opt_level=0)
    async def FailAll(mod: Module, ctx: PassContext) -> Module:
        try:
            await (anyio.wait_all_tasks_blocked() if mod["f"] == 1 else anyio.sleep_forever())
        finally:
            raise ValueError(mod["f"])
        return mod

    with pytest.raises(ExceptionGroup) as caught:
        await optimize_all([{"f": 0}, {"f": 1}, {"f": 2}], FailAll)
    assert sorted(str(error) for error in caught.value.exceptions) == ["0", "1", "2"]


async def test_failure_does_not_affect_other_modules() -> None:
    modules = [{"f": n if n % 3 else -1} for n in range(30)]
    done = await optimize_all(modules, Double, errors="collect", limit=4)
    assert [one.module for one in done] == [{"f": 2 * n} if n % 3 else None for n in range(30)]


async def test_base_exception_is_raised_unchanged() -> None:
    class StopEverythingError(BaseException):
        pass

    @module_pass(opt_level=0)
    async def Stop(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        raise StopEverythingError

    with pytest.raises(StopEverythingError):
        await optimize_all([{}, {}], Stop)


@pytest.mark.parametrize("errors", ["raise", "collect"])
async def test_source_error_is_raised_after_earlier_outcomes(errors: Any) -> None:
    done: list[int] = []

    @module_pass(opt_level=0)
    async def Note(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        done.append(mod["f"])
        return mod

    def modules() -> Iterator[Module]:
        yield {"f": 1}
        yield {"f": 2}
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        await optimize_all(modules(), Note, errors=errors)
    assert sorted(done) == [1, 2]


async def test_source_error_keeps_its_cause() -> None:
    def modules() -> Iterator[Module]:
        yield {"f": 1}
        try:
            raise KeyError("below")
        except KeyError as error:
            raise OSError("no more") from error

    with pytest.raises(OSError, match="no more") as caught:
        await optimize_all(modules(), Double)
    assert repr(caught.value.__cause__) == "KeyError('below')"


async def test_async_source_error_follows_earlier_outcomes() -> None:
    async def modules() -> AsyncGenerator[Module, None]:
        yield {"f": 1}
        await checkpoint()
        raise OSError("no more")

    async with aclosing(modules()) as source, optimize_stream(source, Double) as outcomes:
        assert (await anext(outcomes)).module == {"f": 2}
        with pytest.raises(OSError, match="no more"):
            await anext(outcomes)


# The stream.


async def test_outcomes_arrive_in_completion_order() -> None:
    async with optimize_stream({"slow": {"f": 50}, "fast": {"f": 0}, "mid": {"f": 20}}, Double) as outcomes:
        assert [outcome.name async for outcome in outcomes] == ["fast", "mid", "slow"]


@pytest.mark.parametrize("limit", [1, 3])
async def test_limit_includes_unconsumed_outcomes(limit: int) -> None:
    source = Source()
    async with optimize_stream(source, Double, limit=limit) as outcomes:
        for taken in range(5):
            for _ in range(100):
                await checkpoint()
            assert source.asked == taken + limit
            await anext(outcomes)


async def test_endless_source_runs_in_constant_memory() -> None:
    alive: list[int] = [0]
    counts: list[tuple[int, int]] = []

    class Counted(dict[str, Any]):
        def __init__(self) -> None:
            super().__init__(f=0)
            alive[0] += 1

        def __del__(self) -> None:
            alive[0] -= 1

    async def endless() -> AsyncGenerator[Module, None]:
        while True:
            await checkpoint()
            yield Counted()

    same = module_pass_of(lambda mod, ctx: mod, opt_level=0, name="Same")
    async with aclosing(endless()) as source, optimize_stream(source, same, limit=4) as outcomes:
        for _ in range(1000):
            await anext(outcomes)
            counts.append((alive[0], len(anyio.get_running_tasks())))
    modules, tasks = (max(column) for column in zip(*counts, strict=True))
    assert (modules <= 8, tasks <= counts[0][1] + 4) == (True, True)


async def test_next_module_is_requested_after_consumption() -> None:
    """Whatever the order in which the loop runs its tasks, which is random on trio."""
    inside: set[int] = set()
    most = 0

    async def arrivals() -> AsyncIterator[Module]:
        nonlocal most
        for number in range(200):
            inside.add(number)
            most = max(most, len(inside))
            yield {"f": number % 7}

    async with optimize_stream(arrivals(), Double, limit=3) as outcomes:
        async for outcome in outcomes:
            inside.remove(outcome.name)
    assert (most, inside) == (3, set())


async def test_leaving_early_cancels_modules_and_closes_source() -> None:
    source = Source()
    cancelled: list[int] = []

    @module_pass(opt_level=0)
    async def WaitButOne(mod: Module, ctx: PassContext) -> Module:
        if mod["f"] > 1:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(mod["f"])
        return mod

    async with PassContext() as ctx:
        async with optimize_stream(source, WaitButOne, limit=4) as outcomes:
            async for outcome in outcomes:
                assert outcome.module == {"f": 1}
                for _ in range(50):
                    await checkpoint()
                break
        assert (sorted(cancelled), source.closed, state_of(ctx).scheduler.free) == ([2, 3, 4, 5], True, 256)


async def test_waiting_source_is_closed_on_exit() -> None:
    closed: list[bool] = []

    class Waiting:
        async def __aiter__(self) -> AsyncIterator[Module]:
            try:
                yield {"f": 1}
                await anyio.sleep_forever()
            finally:
                closed.append(True)

    async with optimize_stream(Waiting(), Double) as outcomes:
        assert (await anext(outcomes)).module == {"f": 2}
    assert closed == [True]


async def test_error_of_the_block_is_raised_unchanged() -> None:
    own = KeyError("of the block")

    async def leave_by_an_error() -> None:
        async with optimize_stream(Source(), Wait, limit=2):
            await checkpoint()
            raise own

    with pytest.raises(KeyError) as caught:
        await leave_by_an_error()
    assert caught.value is own


async def test_cancelled_run_leaves_no_module_running() -> None:
    log, scope = list[str](), anyio.CancelScope()

    async def run() -> None:
        with scope:
            await optimize_all([{"f": n} for n in range(5)], Wait, limit=3)

    async with PassContext(instruments=[RecordingInstrument("A", log)]), anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
    counts = {hook: log.count(f"A.{hook} Wait") for hook in ("run_before_pass", "run_after_pass_failed")}
    assert (scope.cancelled_caught, counts) == (True, {"run_before_pass": 3, "run_after_pass_failed": 3})


async def test_failure_closes_streams_of_unstarted_modules() -> None:
    fail = module_pass_of(lambda mod, ctx: 1 // 0, opt_level=0, name="Fail")
    with pytest.raises(ZeroDivisionError):
        await optimize_all([{"f": n} for n in range(20)], fail)


# What is given.


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "2"])
async def test_invalid_limit_raises(limit: Any) -> None:
    with pytest.raises(ValueError, match=f"limit must be an int of at least 1 or None, got {limit!r}"):
        await optimize_all([{"f": 1}], Double, limit=limit)


async def test_iterating_outside_the_block_raises() -> None:
    stream = optimize_stream([{"f": 1}], Double)
    says = r"^outcomes are available only inside `async with optimize_stream\(...\) as outcomes:`; iterate there$"
    with pytest.raises(PassContextError, match=says):
        aiter(stream)
    async with stream as outcomes:
        assert [one.module async for one in outcomes] == [{"f": 2}]
    with pytest.raises(PassContextError, match=says):
        aiter(stream)


async def test_invalid_arguments_raise() -> None:
    wrong: Any = "ignore"
    with pytest.raises(ValueError, match="errors must be 'raise' or 'collect', got 'ignore'"):
        await optimize_all([{"f": 1}], Double, errors=wrong)
    no_pass: Any = len
    with pytest.raises(
        TypeError, match=r"optimize_all\(modules, pass_\) takes .* as pass_, got <built-in function len>"
    ):
        await optimize_all([{"f": 1}], no_pass)
    swapped: Any = Double
    modules: Any = [{"f": 1}]
    with pytest.raises(TypeError, match=r"modules come first and then the pass; write optimize_all"):
        await optimize_all(swapped, modules)
    text: Any = "Double"
    with pytest.raises(TypeError, match=r"as pass_, got \[{'f': 1}\]; for several passes, write apass.Sequential"):
        await optimize_all(text, modules)
    endless: Any = Source()
    with pytest.raises(TypeError, match="use optimize_stream for an async iterable"):
        await optimize_all(endless, Double)


async def test_batch_runs_in_given_context() -> None:
    @apass.module_pass(opt_level=0)
    def Level(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        return {"level": ctx.opt_level}

    ctx = apass.PassContext(opt_level=3)
    assert await optimize_all([{}, {}], Level, context=ctx) == [{"level": 3}, {"level": 3}]
    async with apass.optimize_stream([{}], Level, context=ctx) as outcomes:
        assert [outcome.module async for outcome in outcomes] == [{"level": 3}]
    assert apass.PassContext.current().opt_level == 2
    no_context: Any = 3
    with pytest.raises(TypeError, match=r"context must be of type PassContext \| None, got 3"):
        await optimize_all([{}], Level, context=no_context)


async def test_context_is_left_after_an_error() -> None:
    left: list[str] = []

    class Watch(apass.PassInstrument):
        def exit_pass_ctx(self) -> None:
            left.append("left")

    @apass.module_pass(opt_level=0)
    def Fail(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await optimize_all([{}], Fail, context=apass.PassContext(instruments=[Watch()]))
    assert left == ["left"]


async def test_batch_takes_text_of_a_pipeline() -> None:
    assert await optimize_all([{"f": 1}], "Repeat(Sequential)") == [{"f": 1}]
