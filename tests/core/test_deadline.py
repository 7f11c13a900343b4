"""Budgets: the seconds of `PassContext(deadline=...)`, for everything beneath, and fallbacks when they are over."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import BudgetExceededError, PassContext, PassTimeoutError, Sequential, function_pass, module_pass
from tests.helpers.idle_clock import idle_clock

pytestmark = pytest.mark.anyio

Module = dict[str, int]
LATER = 60.0
"""Seconds that no test waits for."""


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


async def use_up(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep(PassContext.time_left() + 0.01)
    return mod


@pytest.mark.parametrize("pass_", [WaitForever, WaitInBodies], ids=["module", "functions"])
async def test_a_pass_is_cut_off_when_the_budget_ends(pass_: apass.Pass[Module]) -> None:
    async with PassContext(deadline=0.05):
        with pytest.raises(BudgetExceededError, match=r"pass '\w+' ran out of the budget of 0\.05 s"):
            await Sequential([pass_])({"f": 1, "g": 2})


@idle_clock
async def test_the_error_of_a_budget_is_a_timeout_and_says_where() -> None:
    async with PassContext(deadline=0.3):
        with pytest.raises(TimeoutError) as caught:
            await WaitInBodies({"f": 1})
    assert caught.value.__notes__ == ["in pass 'WaitInBodies', function 'f'"]


@idle_clock
async def test_bodies_that_may_be_kept_are_kept_when_the_budget_ends() -> None:
    @function_pass(opt_level=0, on_error="keep")
    async def Half(func: int, mod: Module, ctx: PassContext) -> int:
        if func % 2:
            await anyio.sleep_forever()
        return -func

    async with PassContext(deadline=0.5, max_concurrency=2) as ctx:
        made = await Half({name: value for value, name in enumerate("abcdef")})
    assert list(made.values()) == [0, 1, -2, 3, -4, 5]
    kept = {one.function for one in ctx.diag_ctx.diagnostics if "ran out of the budget of 0.5 s" in one.message}
    assert kept == {"b", "d", "f"}


async def test_what_begins_after_the_end_of_the_budget_is_not_begun() -> None:
    begun: list[str] = []

    @function_pass(opt_level=0)
    def Plain(func: int, mod: Module, ctx: PassContext) -> int:
        begun.append("body")
        return func

    @module_pass(opt_level=0)
    def Whole(mod: Module, ctx: PassContext) -> Module:
        begun.append("module")
        return mod

    for late in (Plain, Whole):
        async with PassContext(deadline=0.02):
            with pytest.raises(BudgetExceededError):
                await Sequential([function_pass(wait_out, opt_level=0, on_error="keep"), late])({"f": 1})
    assert begun == []


async def wait_out(func: int, mod: Module, ctx: PassContext) -> int:
    await anyio.sleep_forever()
    return func


async def test_the_smaller_of_nested_budgets_counts() -> None:
    assert PassContext.time_left() == float("inf")
    async with PassContext(deadline=LATER):
        async with PassContext(deadline=2 * LATER):
            assert PassContext.time_left() <= LATER
        async with PassContext(), PassContext(deadline=1):
            assert PassContext.time_left() <= 1
        assert 1 < PassContext.time_left() <= LATER
    assert PassContext.time_left() == float("inf")


@idle_clock
async def test_a_budget_begins_each_time_its_context_is_entered() -> None:
    ctx = PassContext(deadline=0.3)
    for _ in range(2):
        async with ctx:
            assert 0 < ctx.time_left() <= 0.3
            await anyio.sleep(0.31)
            assert ctx.time_left() == 0


async def test_a_context_without_a_deadline_inherits_that_of_the_one_around_it() -> None:
    async with PassContext(deadline=0.05), PassContext():
        with pytest.raises(BudgetExceededError):
            await WaitForever({})


async def test_a_nested_pass_and_its_tasks_inherit_the_budget() -> None:
    seen: list[float] = []

    @function_pass(opt_level=0)
    async def Nest(func: int, mod: Module, ctx: PassContext) -> int:
        async def look() -> None:
            seen.append(PassContext.time_left())

        async with anyio.create_task_group() as group:
            group.start_soon(look)
        return func

    async with PassContext(deadline=LATER):
        await Nest({"f": 1, "g": 2})
    assert len(seen) == 2
    assert all(0 < left <= LATER for left in seen)


async def test_the_shorter_of_timeout_and_budget_names_the_error() -> None:
    slow = function_pass(wait_out, opt_level=0, timeout=0.03)
    async with PassContext(deadline=LATER):
        with pytest.raises(PassTimeoutError, match=r"took longer than 0\.03 s"):
            await slow({"f": 1})
    async with PassContext(deadline=0.03):
        with pytest.raises(BudgetExceededError):
            await function_pass(wait_out, opt_level=0, timeout=LATER)({"f": 1})


async def test_within_its_budget_a_pipeline_does_what_it_does_without() -> None:
    @module_pass(opt_level=0)
    async def Add(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        return {**mod, "new": 5}

    pipeline = Sequential([function_pass(negative, opt_level=0), Add, function_pass(negative, opt_level=0)])
    async with PassContext(deadline=LATER):
        assert await pipeline({"f": 1}) == await pipeline({"f": 1}) == {"f": 1, "new": -5}


async def test_a_cancellation_from_outside_is_none_of_the_budget() -> None:
    with anyio.move_on_after(0.02) as scope:
        async with PassContext(deadline=LATER):
            await Sequential([WaitForever])({})
    assert scope.cancelled_caught


@idle_clock
async def test_of_many_modules_those_that_are_late_have_the_error_as_their_outcome() -> None:
    @module_pass(opt_level=0)
    async def WaitIfOdd(mod: Module, ctx: PassContext) -> Module:
        if mod["f"] % 2:
            await anyio.sleep_forever()
        return {"f": -mod["f"]}

    async with PassContext(deadline=0.6):
        outcomes = await apass.optimize_all([{"f": index} for index in range(6)], WaitIfOdd, errors="collect")
    assert [type(one.error) for one in outcomes] == [type(None), BudgetExceededError] * 3


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), True])
async def test_a_deadline_is_a_number_of_seconds_above_zero(deadline: Any) -> None:
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
async def test_a_fallback_makes_the_functions_whose_bodies_failed(fallback: Any) -> None:
    pass_ = function_pass(fail_on_odd, opt_level=0, on_error=fallback)
    async with PassContext() as ctx:
        made = await pass_({"f": 1, "g": 2})
    assert made == {"f": 101 if fallback is plain_fallback else 201, "g": -2}
    told = "pass 'fail_on_odd' fell back for function 'f': OSError: no answer about 1"
    assert [(one.level.name, one.message) for one in ctx.diag_ctx.diagnostics] == [("NOTE", told)]


async def test_a_fallback_of_a_class_of_passes_gets_no_self() -> None:
    class Odd:
        def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
            raise ValueError("odd")

    pass_class: Any = function_pass(opt_level=0, on_error=plain_fallback)(Odd)
    assert await pass_class()({"f": 1}) == {"f": 101}


async def test_a_fallback_that_fails_shows_both_errors() -> None:
    def give_up(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        raise LookupError("no idea either")

    with pytest.raises(LookupError, match="no idea either") as caught:
        await function_pass(fail_on_odd, opt_level=0, on_error=give_up)({"f": 1})
    assert isinstance(caught.value.__context__, OSError)


async def test_a_fallback_must_return_a_function() -> None:
    def nothing(func: int, mod: Module, ctx: PassContext, error: Exception) -> None:
        return None

    with pytest.raises(apass.PassResultError, match="the fallback of pass 'fail_on_odd' returned None"):
        await function_pass(fail_on_odd, opt_level=0, on_error=nothing)({"f": 1})


async def test_after_the_budget_a_fallback_may_do_what_needs_no_waiting() -> None:
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


async def test_a_cancellation_is_no_failure_to_fall_back_from() -> None:
    with anyio.move_on_after(0.02) as scope:
        await function_pass(wait_out, opt_level=0, on_error=plain_fallback)({"f": 1})
    assert scope.cancelled_caught


async def test_a_fallback_is_told_where_the_body_failed() -> None:
    notes: list[str] = []

    def look(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        notes.extend(map(str, error.__notes__))
        return func

    await function_pass(fail_on_odd, opt_level=0, on_error=look)({"f": 1, "g": 2})
    assert notes == ["in pass 'fail_on_odd', function 'f'"]


async def test_a_body_that_returns_nothing_failed_and_is_made_good() -> None:
    nothing: Any = None

    async def forget(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func if func % 2 else nothing

    async with PassContext() as ctx:
        made = await function_pass(forget, opt_level=0, on_error="keep")({"f": 1, "g": 2})
    told = "pass 'forget' left function 'g' as it was: PassResultError: pass 'forget' returned None for a function"
    assert (made, [one.message for one in ctx.diag_ctx.diagnostics]) == ({"f": 1, "g": 2}, [told])
    assert await function_pass(forget, opt_level=0, on_error=plain_fallback)({"g": 2}) == {"g": 102}
