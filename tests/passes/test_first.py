"""`First`: which alternative gives the result, and what becomes of the others."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import First, PassContext, Sequential
from apass.core.failures import watch_failures
from apass.errors import PassTimeoutError
from apass.runner.changes import CHANGES, ChangeLog
from apass.testing import RecordingInstrument
from tests.helpers.combinators import Module, error_of, failing, setting, waiting
from tests.helpers.recording import logging_pass


@given(st.lists(st.booleans(), min_size=1, max_size=5))
def test_first_success_gives_the_result(backend: str, succeeds: list[bool]) -> None:
    passes = [setting(i, f"P{i}") if works else failing(f"P{i}", ValueError(i)) for i, works in enumerate(succeeds)]
    ctx = PassContext()
    if not any(succeeds):
        with pytest.raises((ValueError, ExceptionGroup)) as caught:
            apass.run(First(passes), {"f": -1}, backend=backend, context=ctx)
        errors = getattr(caught.value, "exceptions", [caught.value])
        assert [error.args[0] for error in errors] == [*range(len(succeeds))]
        return
    winner = succeeds.index(True)
    assert apass.run(First(passes), {"f": -1}, backend=backend, context=ctx) == {"f": winner}
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        f"pass 'First' ignored its failed alternative 'P{i}': ValueError: {i}" for i in range(winner)
    ]


@pytest.mark.anyio
async def test_later_alternatives_do_not_run_after_success() -> None:
    log: list[str] = []
    first = First([failing("A", KeyError("a")), logging_pass(log, "B"), logging_pass(log, "C")])
    mod = {"f": 1}
    assert await first(mod) is mod
    assert log == ["run B"]


@pytest.mark.anyio
async def test_single_error_is_raised_as_itself() -> None:
    error = await error_of(First([failing("A", ValueError("wrong"))]), {"f": 1})
    assert (type(error), error.__notes__) == (ValueError, ["in pass 'First > A'"])


@pytest.mark.anyio
async def test_hooks_of_failed_alternative_are_complete() -> None:
    log: list[str] = []
    async with PassContext(instruments=[RecordingInstrument("R", log)]):
        await First([failing("A", ValueError("wrong")), setting(1, "B")])({"f": 0})
    assert log == [
        "R.enter_pass_ctx",
        *("R.should_run First", "R.run_before_pass First"),
        *("R.should_run A", "R.run_before_pass A", "R.run_after_pass_failed A"),
        *("R.should_run B", "R.run_before_pass B", "R.run_after_pass B"),
        "R.run_after_pass First",
        "R.exit_pass_ctx",
    ]


@pytest.mark.anyio
async def test_slow_alternative_fails_after_timeout(idle_clock: None) -> None:
    async def forever(mod: Module) -> Module:
        await anyio.sleep_forever()
        return mod

    first = First([waiting("Slow", forever), setting(1)], timeout=3)
    start = anyio.current_time()
    async with PassContext() as ctx:
        assert await first({"f": 0}) == {"f": 1}
    assert anyio.current_time() - start == pytest.approx(3)
    (warning,) = ctx.diag_ctx.diagnostics
    assert warning.message == (
        "pass 'First' ignored its failed alternative 'Slow': PassTimeoutError: the body of pass 'Slow' took longer "
        "than 3 s"
    )
    error = await error_of(First([waiting("Slow", forever)], timeout=3), {"f": 0})
    assert isinstance(error, PassTimeoutError)


@pytest.mark.anyio
async def test_no_alternative_starts_after_context_deadline(idle_clock: None) -> None:
    async def forever(mod: Module) -> Module:
        await anyio.sleep_forever()
        return mod

    log: list[str] = []
    first = First([failing("A", ValueError("wrong")), waiting("Slow", forever), logging_pass(log, "B")])
    with pytest.raises(apass.errors.BudgetExceededError) as caught:
        async with PassContext(deadline=30):
            await first({"f": 0})
    assert "another alternative raised ValueError: wrong" in caught.value.__notes__
    assert log == []


@pytest.mark.anyio
async def test_cancellation_is_no_failure() -> None:
    log: list[str] = []

    async def forever(mod: Module) -> Module:
        with anyio.CancelScope() as inner:
            inner.cancel()
            await anyio.sleep_forever()
        outer.cancel()
        await anyio.sleep_forever()
        return mod

    with anyio.CancelScope() as outer:
        await First([waiting("Slow", forever), logging_pass(log, "B")])({"f": 0})
    assert outer.cancelled_caught
    assert log == []


@pytest.mark.anyio
async def test_disabled_alternatives_take_no_part() -> None:
    log: list[str] = []
    alternatives = [logging_pass(log, "High", opt_level=3), logging_pass(log, "Off"), logging_pass(log, "On")]
    mod = {"f": 0}
    async with PassContext(disabled_pass=["Off"]):
        assert await First(alternatives)(mod) is mod
        assert await First(alternatives[:2])(mod) is mod
    assert log == ["run On"]


@pytest.mark.anyio
async def test_only_changes_of_the_result_count() -> None:
    log = ChangeLog()
    CHANGES.set(log)
    broken = Sequential([setting(1, "Lost"), failing("A", ValueError("wrong"))])
    await First([broken, setting(2, "Kept")])({"f": 0})
    CHANGES.set(None)
    assert log.changed == {"Kept": 1}


@pytest.mark.anyio
async def test_result_after_failure_is_marked_for_caches() -> None:
    with watch_failures() as failures:
        await First([setting(1), failing("A", ValueError("wrong"))])({"f": 0})
        assert not failures.seen
        await First([failing("A", ValueError("wrong")), setting(1)])({"f": 0})
    assert failures.seen


def test_first_from_text_runs() -> None:
    apass.register_pass("first.Fail", lambda: failing("Fail", ValueError("wrong")))
    apass.register_pass("first.Set", lambda: setting(4))
    try:
        pipeline = apass.parse_pipeline("First{timeout=5}(first.Fail,Repeat{times=2}(first.Set))")
        assert apass.run(pipeline, {"f": 0}) == {"f": 4}
    finally:
        apass.unregister_pass("first.Fail")
        apass.unregister_pass("first.Set")
