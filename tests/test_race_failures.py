"""`Race`: passes that fail, and races that are cancelled."""

import gc
import weakref
from contextlib import suppress

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext
from apass.combinators import Race
from tests.helpers.combinators import Box, Module, error_of, failing, setting, waiting
from tests.helpers.recording import Recorder, logging_pass


@pytest.mark.anyio
async def test_a_pass_that_fails_is_left_out_with_a_warning() -> None:
    async with PassContext() as ctx:
        race = Race([failing("Bad", ValueError("no")), setting(1, "Good")], name="Choice")
        assert await apass.optimize_all({"m": {"f": 0}}, race) == {"m": {"f": 1}}
    (warning,) = ctx.diag_ctx.diagnostics
    assert (warning.level.name, warning.message) == (
        "WARNING",
        "pass 'Choice' left out its alternative 'Bad': ValueError: no",
    )
    assert (warning.pass_name, warning.function, warning.module) == ("Choice", None, "m")


@pytest.mark.anyio
async def test_if_all_fail_their_errors_are_raised_as_one_flat_group() -> None:
    inner = Race([failing("A", ValueError("a")), failing("B", KeyError("b"))], key=len, name="Inner")
    error = await error_of(Race([inner, failing("C", OSError("c"))], key=len), {})
    assert type(error) is ExceptionGroup
    assert error.message == "every alternative of pass 'Race' failed"
    assert [repr(one) for one in error.exceptions] == ["ValueError('a')", "KeyError('b')", "OSError('c')"]
    assert [one.__notes__[0] for one in error.exceptions] == [
        "in pass 'Race > Inner > A'",
        "in pass 'Race > Inner > B'",
        "in pass 'Race > C'",
    ]


@pytest.mark.anyio
async def test_if_the_only_one_fails_its_error_is_raised_itself() -> None:
    failure = ValueError("no")
    async with PassContext() as ctx:
        assert await error_of(Race([failing("Bad", failure)]), {}) is failure
    assert failure.__notes__ == ["in pass 'Race > Bad'"]
    assert ctx.diag_ctx.diagnostics == ()


@pytest.mark.anyio
async def test_a_pass_that_the_key_fails_on_is_left_out() -> None:
    def key(mod: Module) -> float | None:
        return {"none": None, "nan": float("nan"), "small": 1, "large": 2}[mod["f"]]

    names = ["missing", "none", "nan", "large", "small"]
    unordered = "PassResultError: the key of pass 'Race' returned {}; return what can be ordered"
    async with PassContext() as ctx:
        assert await Race([setting(name, name) for name in names], key=key)({}) == {"f": "small"}
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'Race' left out its alternative 'missing': KeyError: 'missing'",
        f"pass 'Race' left out its alternative 'none': {unordered.format(None)}",
        f"pass 'Race' left out its alternative 'nan': {unordered.format(float('nan'))}",
    ]


@pytest.mark.anyio
async def test_if_the_key_fails_on_all_each_error_names_whose_result_it_was() -> None:
    race = Race([setting(1, "A"), setting(2, "B")], key=lambda mod: mod["missing"])
    error = await error_of(race, {})
    assert [one.__notes__ for one in error.exceptions] == [
        ["when judging what 'A' made"],
        ["when judging what 'B' made"],
    ]


@pytest.mark.anyio
async def test_keys_that_cannot_be_compared_are_an_error() -> None:
    error = await error_of(Race([setting(1), setting("a")], key=lambda mod: mod["f"]), {})
    assert (type(error), error.__notes__) == (TypeError, ["in pass 'Race'"])


@pytest.mark.anyio
async def test_what_is_no_exception_ends_the_race_and_is_raised_itself() -> None:
    ended: list[str] = []

    async def slow(mod: Module) -> Module:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("slow")
        return mod

    async def interrupt(mod: Module) -> Module:
        await anyio.wait_all_tasks_blocked()
        raise KeyboardInterrupt("stop")

    error = await error_of(Race([waiting("Slow", slow), waiting("Stop", interrupt)]), {}, KeyboardInterrupt)
    assert (repr(error), ended) == ("KeyboardInterrupt('stop')", ["slow"])


@pytest.mark.anyio
async def test_a_cancelled_race_ends_at_once_and_runs_every_finally() -> None:
    log: list[str] = []
    begun = anyio.Event()

    async def slow(mod: Module) -> Module:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            log.append("finally")
        return mod

    race = Race([failing("Bad", ValueError("no")), waiting("Slow", slow), waiting("Slow", slow)])
    async with PassContext(instruments=[Recorder("R", log)]) as ctx, anyio.create_task_group() as group:
        group.start_soon(race, {"f": 1})
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert (log.count("finally"), log.count("R.run_after_pass_failed Slow")) == (2, 2)
    assert log[-2:] == ["R.run_after_pass_failed Race", "R.exit_pass_ctx"]
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'Race' left out its alternative 'Bad': ValueError: no"
    ]


@pytest.mark.anyio
async def test_after_what_is_no_exception_no_alternative_begins() -> None:
    log: list[str] = []
    race = Race([failing("Stop", KeyboardInterrupt("stop")), logging_pass(log, "B")], key=len)
    assert repr(await error_of(race, {}, KeyboardInterrupt)) == "KeyboardInterrupt('stop')"
    assert log == []


@pytest.mark.anyio
async def test_what_is_no_exception_comes_out_of_a_cancelled_race_too() -> None:
    raised: list[str] = []

    async def stop(mod: Module) -> Module:
        try:
            await anyio.sleep_forever()
        finally:
            raise KeyboardInterrupt("stop")

    async def run() -> None:
        raised.append(repr(await error_of(Race([waiting("Stop", stop)]), {}, KeyboardInterrupt)))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert raised == ["KeyboardInterrupt('stop')"]


@pytest.mark.anyio
async def test_an_error_while_losing_is_a_warning() -> None:
    async def sore(mod: Module) -> Module:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("sore")

    async def quick(mod: Module) -> Module:
        await anyio.wait_all_tasks_blocked()
        return {"f": 2}

    async with PassContext() as ctx:
        assert await Race([waiting("Sore", sore), waiting("Quick", quick)])({}) == {"f": 2}
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'Race' left out its alternative 'Sore': ValueError: sore"
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("names", [["Bad", "Good"], ["Bad", "Bad"]])
async def test_a_race_lets_go_of_its_modules_when_it_is_over(names: list[str]) -> None:
    """Errors hold the frames that they passed through; none of these may hold the errors."""

    def make(mod: Module, ctx: PassContext) -> Module:
        boxes.append(weakref.ref(box := Box(f=1)))
        return box

    def key(mod: Module) -> int:
        if len(boxes) == 1 or "Good" not in names:
            raise ValueError("no")
        return 1

    boxes: list[weakref.ref[Box]] = []
    gc.disable()
    try:
        race = Race([apass.module_pass(make, opt_level=0, name=name) for name in names], key=key)
        with suppress(ExceptionGroup):
            await race({})
        # The loop may hold on to the last step of a task until its next round.
        await checkpoint()
        assert [box() for box in boxes] == [None, None]
    finally:
        gc.enable()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio nobody can raise a cancellation of their own
async def test_a_cancellation_that_no_scope_asked_for_is_a_failure_like_any_other() -> None:
    cancelled = anyio.get_cancelled_exc_class()

    async def await_cancelled(mod: Module) -> Module:
        await checkpoint()
        raise cancelled("of something else")

    async def late(mod: Module) -> Module:
        await anyio.wait_all_tasks_blocked()
        return {"f": 2}

    stray = waiting("Stray", await_cancelled)
    async with PassContext() as ctx:
        assert await Race([stray, waiting("Late", late)])({}) == {"f": 2}
        with pytest.raises(cancelled, match="of something else"):
            await Race([stray])({})
        assert repr(await error_of(Race([stray, failing("Bad", ValueError("no"))]), {})) == "ValueError('no')"
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'Race' left out its alternative 'Stray': CancelledError: of something else"
    ]
