"""`Race`: which pass wins, and what the others are left to do."""

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import PassContext, PassInfo, Run, Sequential
from apass.passes.race import Race
from apass.passes.repeat import Repeat
from apass.testing import RecordingInstrument
from tests.helpers.combinators import Box, Module, error_of, failing, setting, waiting
from tests.helpers.recording import function_pass_of, logging_pass, module_pass_of


@dataclass
class Plan:
    """What an alternative does: how often it suspends, and what becomes of it."""

    pauses: int
    score: int
    fails: bool
    opened: list[int] = field(default_factory=list[int])

    async def body(self, mod: Module) -> Module:
        self.opened.append(1)
        try:
            for _ in range(self.pauses):
                await checkpoint()
            if self.fails:
                raise ValueError(self.score)
            return {"f": self.score, "by": id(self)}
        finally:
            self.opened.pop()


plans = st.lists(st.builds(Plan, st.integers(0, 3), st.integers(0, 2), st.booleans()), min_size=1, max_size=5)


@settings(deadline=None)
@given(entrants=plans, mode=st.sampled_from(["none", "plain", "async"]))
def test_race_returns_the_result_of_one_alternative(backend: str, entrants: list[Plan], mode: str) -> None:
    async def later(mod: Module) -> Any:
        await checkpoint()
        return mod["f"]

    keys: dict[str, Callable[[Module], Any] | None] = {"none": None, "plain": lambda mod: mod["f"], "async": later}
    ctx = PassContext()
    passes = [waiting(f"P{place}", plan.body) for place, plan in enumerate(entrants)]
    fine = [plan for plan in entrants if not plan.fails]
    try:
        result = apass.run(Race(passes, key=keys[mode]), {"f": 0}, backend=backend, context=ctx)
    except* ValueError as group:
        failed = [error.args[0] for error in leaves(group)]
        assert (fine, failed) == ([], [plan.score for plan in entrants])
    else:
        won = next(plan for plan in fine if id(plan) == result["by"])
        if mode != "none":
            assert won is min(fine, key=lambda plan: plan.score)
            assert len(ctx.diag_ctx.diagnostics) == len(entrants) - len(fine)
    assert [plan.opened for plan in entrants] == [[] for _ in entrants]


def leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    """Iterate over the errors of a group, which must be flat."""
    for error in group.exceptions:
        assert not isinstance(error, BaseExceptionGroup)
        yield error


@pytest.mark.anyio
async def test_first_finisher_wins_and_others_are_cancelled() -> None:
    log: list[str] = []

    async def slow(mod: Module) -> Module:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await checkpoint()
                log.append("slow has cleaned up")
        return mod

    async def quick(mod: Module) -> Module:
        await anyio.wait_all_tasks_blocked()
        return {"f": 2}

    race = Race([waiting("Slow", slow), waiting("Quick", quick), waiting("Slow", slow)])
    async with PassContext(instruments=[RecordingInstrument("R", log)]) as ctx:
        assert await race({"f": 1}) == {"f": 2}
    assert log.count("slow has cleaned up") == 2
    assert log.count("R.run_after_pass_failed Slow") == 2
    assert log.index("R.run_after_pass Race") > max(i for i, line in enumerate(log) if "failed Slow" in line)
    assert ctx.diag_ctx.diagnostics == ()


@pytest.mark.anyio
async def test_first_alternative_wins_if_none_suspends() -> None:
    log: list[str] = []
    assert await Race([setting(1), logging_pass(log, "B"), logging_pass(log, "C")])({}) == {"f": 1}
    assert log == []


@pytest.mark.anyio
async def test_key_runs_all_alternatives_concurrently() -> None:
    begun = [anyio.Event() for _ in range(3)]

    async def meet(place: int, mod: Module) -> Module:
        begun[place].set()
        for event in begun:
            await event.wait()
        return {"f": -place}

    passes = [waiting(f"P{n}", partial(meet, n)) for n in range(3)]
    assert await Race(passes, key=lambda mod: mod["f"])({}) == {"f": -2}


@pytest.mark.anyio
async def test_first_alternative_wins_among_equal_keys() -> None:
    async def late(mod: Module) -> Module:
        await anyio.wait_all_tasks_blocked()
        return {"f": "late"}

    assert await Race([waiting("Late", late), setting("soon")], key=lambda mod: 0)({}) == {"f": "late"}


@pytest.mark.anyio
async def test_late_result_of_a_loser_is_ignored() -> None:
    async def stubborn(mod: Module) -> Module:
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        return {"f": "stubborn"}

    async def quick(mod: Module) -> Module:
        await checkpoint()
        return {"f": "quick"}

    assert await Race([waiting("Stubborn", stubborn), waiting("Quick", quick)])({}) == {"f": "quick"}


@pytest.mark.anyio
async def test_alternatives_inherit_context_and_run() -> None:
    seen: dict[str, tuple[Any, ...]] = {}
    variable: ContextVar[str] = ContextVar("variable", default="outside")

    async def look(name: str, mod: Module) -> Module:
        run = apass.current_run()
        assert run is not None
        seen[name] = (run.path, run.parent, PassContext.current(), variable.get())
        variable.set(name)
        await checkpoint()
        return mod

    parents: list[Run | None] = []

    @apass.pass_instrument
    class Parents:
        def run_before_pass(self, mod: Module, info: PassInfo) -> None:
            if info.name == "Race":
                parents.append(apass.current_run())

    passes = [waiting(name, partial(look, name)) for name in ("A", "B")]
    async with PassContext(instruments=[Parents()]) as ctx:
        await Sequential([Race(passes, key=len)])({})
    assert seen == {name: (("sequential", "Race", name), parents[0], ctx, "outside") for name in ("A", "B")}
    assert variable.get() == "outside"


@pytest.mark.anyio
async def test_key_runs_in_the_run_of_the_race() -> None:
    paths: list[tuple[str, ...]] = []

    def key(mod: Module) -> int:
        run = apass.current_run()
        assert run is not None
        paths.append(run.path)
        return 1

    await Sequential([Race([setting(1), setting(2)], key=key)])({})
    assert paths == [("sequential", "Race")] * 2


@pytest.mark.anyio
async def test_steps_of_alternatives_count_for_the_race() -> None:
    steps: dict[str, list[tuple[float, float]]] = {}
    moments: dict[str, float] = {}

    @apass.pass_instrument
    class Steps:
        def run_after_step(self, run: Run, start: float, end: float) -> None:
            steps.setdefault(run.info.name, []).append((start, end))

    async def body(name: str, mod: Module) -> Module:
        await checkpoint()
        moments[name] = perf_counter()
        await checkpoint()
        return mod

    async with PassContext(instruments=[Steps()]):
        await Race([waiting(name, partial(body, name)) for name in ("A", "B")], key=len)({})
    holding = {
        (moment, name): sum(start <= moments[moment] <= end for start, end in steps[name])
        for moment in ("A", "B")
        for name in ("A", "B", "Race")
    }
    expected = dict.fromkeys([("A", "A"), ("A", "Race"), ("B", "B"), ("B", "Race")], 1)
    assert holding == {**expected, ("A", "B"): 0, ("B", "A"): 0}


@pytest.mark.anyio
async def test_steps_of_the_key_count_for_race() -> None:
    steps: list[tuple[float, float]] = []
    moments: list[float] = []

    @apass.pass_instrument
    class Steps:
        def run_after_step(self, run: Run, start: float, end: float) -> None:
            if run.info.name == "Race":
                steps.append((start, end))

    async def key(mod: Module) -> int:
        await checkpoint()
        moments.append(perf_counter())
        await checkpoint()
        return 1

    async with PassContext(instruments=[Steps()]):
        await Race([setting(1), setting(2)], key=key)({})
    assert [sum(start <= moment <= end for start, end in steps) for moment in moments] == [1, 1]


@pytest.mark.anyio
async def test_disabled_alternatives_do_not_take_part() -> None:
    log: list[str] = []
    passes = [logging_pass(log, "High", opt_level=3), logging_pass(log, "Off"), logging_pass(log, "On", opt_level=2)]
    mod = {"f": 1}
    async with PassContext(opt_level=2, disabled_pass=["Off"]):
        assert await Race(passes)(mod) is mod
    async with PassContext(opt_level=1, disabled_pass=["Off"]):
        assert await Race(passes)(mod) is mod
    assert log == ["run On"]
    async with PassContext(opt_level=1, disabled_pass=["Off"], required_pass=["High"]):
        assert await Race(passes)(mod) is mod
    assert log == ["run On", "run High"]


@pytest.mark.anyio
async def test_requirements_run_before_an_alternative() -> None:
    log: list[str] = []
    apass.register_pass("Needed", logging_pass(log, "Needed"))
    try:
        await Race([logging_pass(log, "A", required=["Needed"]), logging_pass(log, "B")], key=len)({})
    finally:
        apass.unregister_pass("Needed")
    assert log == ["run Needed", "run A", "run B"]


@pytest.mark.anyio
async def test_nested_races_leave_no_tasks_open() -> None:
    opened: list[int] = []

    async def slow(mod: Module) -> Module:
        opened.append(1)
        try:
            await anyio.sleep_forever()
        finally:
            opened.pop()
        return mod

    async def quick(mod: Module) -> Module:
        for _ in range(3):
            await checkpoint()
        return {"f": mod["f"] + 1}

    race = Race([waiting("Slow", slow), Race([waiting("Slow", slow), waiting("Quick", quick)])])
    modules = {n: {"f": n} for n in range(20)}
    assert await apass.optimize_all(modules, Repeat([race], times=2)) == {n: {"f": n + 2} for n in range(20)}
    assert opened == []


@pytest.mark.anyio
async def test_failed_alternative_is_ignored_with_a_warning() -> None:
    async with PassContext() as ctx:
        race = Race([failing("Bad", ValueError("no")), setting(1, "Good")], name="Choice")
        assert await apass.optimize_all({"m": {"f": 0}}, race) == {"m": {"f": 1}}
    (warning,) = ctx.diag_ctx.diagnostics
    assert (warning.level.name, warning.message) == (
        "WARNING",
        "pass 'Choice' ignored its failed alternative 'Bad': ValueError: no",
    )
    assert (warning.pass_name, warning.function, warning.module) == ("Choice", None, "m")


@pytest.mark.anyio
async def test_errors_of_all_alternatives_form_one_group() -> None:
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
async def test_error_of_a_single_alternative_is_raised() -> None:
    failure = ValueError("no")
    async with PassContext() as ctx:
        assert await error_of(Race([failing("Bad", failure)]), {}) is failure
    assert failure.__notes__ == ["in pass 'Race > Bad'"]
    assert ctx.diag_ctx.diagnostics == ()


@pytest.mark.anyio
async def test_alternative_whose_key_fails_is_ignored() -> None:
    def key(mod: Module) -> float | None:
        return {"none": None, "nan": float("nan"), "small": 1, "large": 2}[mod["f"]]

    names = ["missing", "none", "nan", "large", "small"]
    unordered = "PassResultError: the key of pass 'Race' returned {}; return a value that can be ordered"
    async with PassContext() as ctx:
        assert await Race([setting(name, name) for name in names], key=key)({}) == {"f": "small"}
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'Race' ignored its failed alternative 'missing': KeyError: 'missing'",
        f"pass 'Race' ignored its failed alternative 'none': {unordered.format(None)}",
        f"pass 'Race' ignored its failed alternative 'nan': {unordered.format(float('nan'))}",
    ]


@pytest.mark.anyio
async def test_key_errors_name_their_alternatives() -> None:
    race = Race([setting(1, "A"), setting(2, "B")], key=lambda mod: mod["missing"])
    error = await error_of(race, {})
    assert [one.__notes__ for one in error.exceptions] == [
        ["in the key function, for the result of 'A'"],
        ["in the key function, for the result of 'B'"],
    ]


@pytest.mark.anyio
async def test_incomparable_keys_raise() -> None:
    error = await error_of(Race([setting(1), setting("a")], key=lambda mod: mod["f"]), {})
    assert (type(error), error.__notes__) == (TypeError, ["in pass 'Race'"])


@pytest.mark.anyio
async def test_base_exception_ends_the_race() -> None:
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
async def test_cancelled_race_runs_every_finally() -> None:
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
    async with PassContext(instruments=[RecordingInstrument("R", log)]) as ctx, anyio.create_task_group() as group:
        group.start_soon(race, {"f": 1})
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert (log.count("finally"), log.count("R.run_after_pass_failed Slow")) == (2, 2)
    assert log[-2:] == ["R.run_after_pass_failed Race", "R.exit_pass_ctx"]
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'Race' ignored its failed alternative 'Bad': ValueError: no"
    ]


@pytest.mark.anyio
async def test_base_exception_prevents_further_alternatives() -> None:
    log: list[str] = []
    race = Race([failing("Stop", KeyboardInterrupt("stop")), logging_pass(log, "B")], key=len)
    assert repr(await error_of(race, {}, KeyboardInterrupt)) == "KeyboardInterrupt('stop')"
    assert log == []


@pytest.mark.anyio
async def test_base_exception_propagates_from_a_cancelled_race() -> None:
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
async def test_error_of_a_loser_is_a_warning() -> None:
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
        "pass 'Race' ignored its failed alternative 'Sore': ValueError: sore"
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("names", [["Bad", "Good"], ["Bad", "Bad"]])
async def test_finished_race_releases_its_modules(names: list[str]) -> None:
    """The frames in a traceback must not refer back to the error."""

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
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio does not let user code raise a cancellation
async def test_unrequested_cancellation_counts_as_a_failure() -> None:
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
        "pass 'Race' ignored its failed alternative 'Stray': CancelledError: of something else"
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["function", "module"])
async def test_deadline_within_race_is_one_error(kind: str, idle_clock: None) -> None:
    async def wait(func: Any, mod: Any, ctx: Any) -> Any:
        await anyio.sleep_forever()

    async def wait_for_module(mod: Any, ctx: Any) -> Any:
        await anyio.sleep_forever()

    late = function_pass_of(wait) if kind == "function" else module_pass_of(wait_for_module)
    async with PassContext(deadline=10):
        with pytest.raises(apass.errors.BudgetExceededError, match=r"pass 'P' ran out of the budget"):
            await Race([late, late])({"f": 1})


@pytest.mark.anyio
async def test_deadline_within_race_names_other_failures() -> None:
    def fail(mod: Any, ctx: Any) -> Any:
        raise ValueError("no")

    def exceed(mod: Any, ctx: Any) -> Any:
        raise apass.errors.BudgetExceededError("too late")

    with pytest.raises(apass.errors.BudgetExceededError, match="too late") as caught:
        await Race([module_pass_of(fail), module_pass_of(exceed), module_pass_of(exceed)])({"f": 1})
    assert "another alternative raised ValueError: no" in caught.value.__notes__
