"""`PassContext(deadline=...)`: the time budget, and fallbacks after its end."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, Sequential, function_pass, module_pass
from apass.errors import BudgetExceededError, PassTimeoutError

pytestmark = pytest.mark.anyio

Module = dict[str, int]
LATER = 60.0
"""Seconds; longer than any test runs."""


@module_pass(opt_level=0)
async def WaitForever(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep_forever()
    return mod


@function_pass(opt_level=0)
async def WaitInBodies(func: int, mod: Module, ctx: PassContext) -> int:
    await anyio.sleep_forever()
    return func


def negative(func: int, mod: Module, ctx: PassContext) -> int:
    return -func


@pytest.mark.usefixtures("idle_clock")
@pytest.mark.parametrize("pass_", [WaitForever, WaitInBodies], ids=["module", "functions"])
async def test_pass_is_cancelled_when_budget_ends(pass_: apass.Pass[Module]) -> None:
    async with PassContext(deadline=0.05):
        with pytest.raises(BudgetExceededError, match=r"pass '\w+' ran out of the budget of 0\.05 s"):
            await Sequential([pass_])({"f": 1, "g": 2})


@pytest.mark.usefixtures("idle_clock")
async def test_budget_error_is_timeout_with_location_note() -> None:
    async with PassContext(deadline=0.3):
        with pytest.raises(TimeoutError) as caught:
            await WaitInBodies({"f": 1})
    assert caught.value.__notes__ == ["in pass 'WaitInBodies', function 'f'"]


@pytest.mark.usefixtures("idle_clock")
async def test_on_error_keep_applies_when_budget_ends() -> None:
    @function_pass(opt_level=0, on_error="keep")
    async def Half(func: int, mod: Module, ctx: PassContext) -> int:
        if func % 2:
            await anyio.sleep_forever()
        return -func

    async with PassContext(deadline=0.5, max_concurrency=2) as ctx:
        result = await Half({name: value for value, name in enumerate("abcdef")})
    assert list(result.values()) == [0, 1, -2, 3, -4, 5]
    recovered = {
        diagnostic.function
        for diagnostic in ctx.diag_ctx.diagnostics
        if "ran out of the budget of 0.5 s" in diagnostic.message
    }
    assert recovered == {"b", "d", "f"}


async def test_pass_does_not_start_after_budget_ends() -> None:
    started: list[str] = []

    @function_pass(opt_level=0)
    def Plain(func: int, mod: Module, ctx: PassContext) -> int:
        started.append("body")
        return func

    @module_pass(opt_level=0)
    def Whole(mod: Module, ctx: PassContext) -> Module:
        started.append("module")
        return mod

    for late_pass in (Plain, Whole):
        async with PassContext(deadline=0.02):
            with pytest.raises(BudgetExceededError):
                await Sequential([function_pass(wait_out, opt_level=0, on_error="keep"), late_pass])({"f": 1})
    assert started == []


async def wait_out(func: int, mod: Module, ctx: PassContext) -> int:
    await anyio.sleep_forever()
    return func


async def test_smallest_of_nested_budgets_applies() -> None:
    assert PassContext.time_left() == float("inf")
    async with PassContext(deadline=LATER):
        async with PassContext(deadline=2 * LATER):
            assert PassContext.time_left() <= LATER
        async with PassContext(), PassContext(deadline=1):
            assert PassContext.time_left() <= 1
        assert 1 < PassContext.time_left() <= LATER
    assert PassContext.time_left() == float("inf")


@pytest.mark.usefixtures("idle_clock")
async def test_budget_starts_on_each_entry() -> None:
    ctx = PassContext(deadline=0.3)
    for _ in range(2):
        async with ctx:
            assert 0 < ctx.time_left() <= 0.3
            await anyio.sleep(0.31)
            assert ctx.time_left() == 0


async def test_nested_context_inherits_deadline() -> None:
    async with PassContext(deadline=0.05), PassContext():
        with pytest.raises(BudgetExceededError):
            await WaitForever({})


async def test_nested_pass_and_its_tasks_inherit_budget() -> None:
    times_left: list[float] = []

    @function_pass(opt_level=0)
    async def Nest(func: int, mod: Module, ctx: PassContext) -> int:
        async def read_time_left() -> None:
            times_left.append(PassContext.time_left())

        async with anyio.create_task_group() as group:
            group.start_soon(read_time_left)
        return func

    async with PassContext(deadline=LATER):
        await Nest({"f": 1, "g": 2})
    assert len(times_left) == 2
    assert all(0 < seconds <= LATER for seconds in times_left)


async def test_shorter_of_timeout_and_budget_names_error() -> None:
    slow = function_pass(wait_out, opt_level=0, timeout=0.03)
    async with PassContext(deadline=LATER):
        with pytest.raises(PassTimeoutError, match=r"took longer than 0\.03 s"):
            await slow({"f": 1})
    async with PassContext(deadline=0.03):
        with pytest.raises(BudgetExceededError):
            await function_pass(wait_out, opt_level=0, timeout=LATER)({"f": 1})


async def test_pipeline_result_is_unchanged_within_budget() -> None:
    @module_pass(opt_level=0)
    async def Add(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        return {**mod, "new": 5}

    pipeline = Sequential([function_pass(negative, opt_level=0), Add, function_pass(negative, opt_level=0)])
    async with PassContext(deadline=LATER):
        assert await pipeline({"f": 1}) == await pipeline({"f": 1}) == {"f": 1, "new": -5}


async def test_outer_cancellation_is_not_budget_error() -> None:
    with anyio.move_on_after(0.02) as scope:
        async with PassContext(deadline=LATER):
            await Sequential([WaitForever])({})
    assert scope.cancelled_caught


@pytest.mark.usefixtures("idle_clock")
async def test_late_modules_have_budget_error_as_outcome() -> None:
    @module_pass(opt_level=0)
    async def WaitIfOdd(mod: Module, ctx: PassContext) -> Module:
        if mod["f"] % 2:
            await anyio.sleep_forever()
        return {"f": -mod["f"]}

    async with PassContext(deadline=0.6):
        outcomes = await apass.optimize_all([{"f": index} for index in range(6)], WaitIfOdd, errors="collect")
    assert [type(outcome.error) for outcome in outcomes] == [type(None), BudgetExceededError] * 3


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), True])
async def test_invalid_deadline_raises(deadline: Any) -> None:
    with pytest.raises(ValueError, match="deadline must be a number of seconds above 0"):
        PassContext(deadline=deadline)


def plain_fallback(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    return func + 100


async def async_fallback(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    await checkpoint()
    return func + len(mod) * 100


async def fail_on_odd(func: int, mod: Module, ctx: PassContext) -> int:
    await checkpoint()
    if func % 2:
        raise OSError(f"no answer about {func}")
    return -func


@pytest.mark.parametrize("fallback", [plain_fallback, async_fallback])
async def test_fallback_replaces_failed_functions(fallback: Any) -> None:
    pass_ = function_pass(fail_on_odd, opt_level=0, on_error=fallback)
    async with PassContext() as ctx:
        result = await pass_({"f": 1, "g": 2})
    assert result == {"f": 101 if fallback is plain_fallback else 201, "g": -2}
    message = "pass 'fail_on_odd' fell back for function 'f': OSError: no answer about 1"
    assert [(diagnostic.level.name, diagnostic.message) for diagnostic in ctx.diag_ctx.diagnostics] == [
        ("NOTE", message)
    ]


async def test_fallback_of_pass_class_gets_no_self() -> None:
    class Odd:
        def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            raise ValueError("odd")

    pass_class: Any = function_pass(opt_level=0, on_error=plain_fallback)(Odd)
    assert await pass_class()({"f": 1}) == {"f": 101}


async def test_failing_fallback_raises_with_original_error_as_context() -> None:
    def give_up(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        raise LookupError("no idea either")

    with pytest.raises(LookupError, match="no idea either") as caught:
        await function_pass(fail_on_odd, opt_level=0, on_error=give_up)({"f": 1})
    assert isinstance(caught.value.__context__, OSError)


async def test_fallback_returning_none_raises() -> None:
    def return_none(func: int, mod: Module, ctx: PassContext, error: Exception) -> None:
        return None

    with pytest.raises(apass.errors.PassResultError, match="the fallback of pass 'fail_on_odd' returned None"):
        await function_pass(fail_on_odd, opt_level=0, on_error=return_none)({"f": 1})


async def test_fallback_after_budget_may_not_wait() -> None:
    async def compute(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        return func + 100

    async with PassContext(deadline=0.3):
        assert await function_pass(wait_out, opt_level=0, on_error=compute)({"f": 1}) == {"f": 101}
    async with PassContext(deadline=0.3):
        with pytest.raises(BudgetExceededError, match="the fallback of pass 'wait_out' ran out"):
            await function_pass(wait_out, opt_level=0, on_error=wait_and_return)({"f": 1})


async def wait_and_return(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    await anyio.sleep_forever()
    return func


async def test_cancellation_does_not_trigger_fallback() -> None:
    with anyio.move_on_after(0.02) as scope:
        await function_pass(wait_out, opt_level=0, on_error=plain_fallback)({"f": 1})
    assert scope.cancelled_caught


async def test_fallback_error_has_location_note() -> None:
    notes: list[str] = []

    def record_notes(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        notes.extend(map(str, error.__notes__))
        return func

    await function_pass(fail_on_odd, opt_level=0, on_error=record_notes)({"f": 1, "g": 2})
    assert notes == ["in pass 'fail_on_odd', function 'f'"]


async def test_body_returning_none_is_recovered_by_on_error() -> None:
    no_function: Any = None

    async def forget(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func if func % 2 else no_function

    async with PassContext() as ctx:
        result = await function_pass(forget, opt_level=0, on_error="keep")({"f": 1, "g": 2})
    message = "pass 'forget' left function 'g' as it was: PassResultError: pass 'forget' returned None for a function"
    assert (result, [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics]) == ({"f": 1, "g": 2}, [message])
    assert await function_pass(forget, opt_level=0, on_error=plain_fallback)({"g": 2}) == {"g": 102}
