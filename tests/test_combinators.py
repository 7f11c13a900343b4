"""`Repeat`, `If` and `Race`: what they run, what they return, what they leave behind."""

import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
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
from apass import (
    ModulePass,
    Pass,
    PassContext,
    PassDefinitionError,
    PassInfo,
    PassResultError,
    PipelineCycleError,
    Run,
    Sequential,
)
from apass.adapters.mapping import DictAdapter
from apass.combinators import If, Race, Repeat
from tests.recording import Recorder, logging_pass

Module = dict[str, Any]

backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
"""For tests of Hypothesis, which start an event loop for each example."""


def stepping(table: Sequence[int], name: str = "Step") -> ModulePass[Module]:
    """Return a pass that takes the number of the module from a table; the module itself if that changes nothing."""

    async def step(mod: Module, ctx: PassContext) -> Module:
        old: int = mod["f"]
        return mod if table[old] == old else {"f": table[old]}

    return apass.module_pass(step, opt_level=0, name=name)


def setting(value: object, name: str = "Set", opt_level: int = 0) -> ModulePass[Module]:
    """Return a pass that puts one value into the module, always in a new one."""
    return apass.module_pass(lambda mod, ctx: {**mod, "f": value}, opt_level=opt_level, name=name)


def waiting(name: str, body: Callable[[Module], Awaitable[Module]], opt_level: int = 0) -> ModulePass[Module]:
    """Return a pass that awaits `body`."""

    async def run(mod: Module, ctx: PassContext) -> Module:
        return await body(mod)

    return apass.module_pass(run, opt_level=opt_level, name=name)


async def error_of(pass_: Pass[Module], mod: Module, error: type[BaseException] = Exception) -> Any:
    """Return what the pass raises."""
    with pytest.raises(error) as caught:
        await pass_(mod)
    return caught.value


# Repeat.


def plain_loop(table: Sequence[int], start: int, times: int | None, strict: bool) -> int | str:
    """Return what a Repeat of a table's step gives, or the message of its error."""
    states = [start]
    last = 100 if times is None else times
    for rounds in range(1, last + 1):
        new = table[states[-1]]
        if new == states[-1]:
            return new
        if new in states:
            since = states.index(new)
            first = f"of round {since}" if since else "that it began with"
            return (
                f"pass 'Repeat' goes in circles: round {rounds} gave the module {first} again, a cycle of length "
                f"{rounds - since}; take out the pass that undoes what another does"
            )
        states.append(new)
    if strict or times is None:
        return (
            f"pass 'Repeat' did not settle: round {last}, the last that it may run, still changed the module; "
            f"raise `times`, or take out the pass that never comes to rest"
        )
    return states[-1]


@backends
@settings(deadline=None)
@given(
    table=st.lists(st.integers(0, 7), min_size=8, max_size=8),
    start=st.integers(0, 7),
    times=st.none() | st.integers(1, 9),
    strict=st.booleans(),
)
def test_repeat_is_the_plain_loop(backend: str, table: list[int], start: int, times: int | None, strict: bool) -> None:
    pass_ = Repeat([stepping(table)], times=times, strict=strict)
    try:
        result: int | str = apass.run(pass_, {"f": start}, backend=backend)["f"]
    except PipelineCycleError as error:
        result = str(error)
    assert result == plain_loop(table, start, times, strict)


@pytest.mark.anyio
async def test_a_round_runs_all_the_passes_in_order() -> None:
    log: list[str] = []
    passes = [logging_pass(log, "A"), stepping([1, 2, 3, 3]), logging_pass(log, "B")]
    assert await Repeat(passes)({"f": 0}) == {"f": 3}
    assert log == ["run A", "run B"] * 4


@pytest.mark.anyio
async def test_the_module_itself_comes_back_if_nothing_changes() -> None:
    mod = {"f": 3}
    assert await Repeat([setting(3)])(mod) is mod
    assert await Repeat([stepping([0, 1, 2, 3])])(mod) is mod


@pytest.mark.anyio
async def test_without_times_it_must_settle_within_100_rounds() -> None:
    count = stepping(range(1, 2000), "Count")
    error = await error_of(Repeat([count]), {"f": 0})
    assert isinstance(error, PipelineCycleError)
    assert str(error) == (
        "pass 'Repeat' did not settle: round 100, the last that it may run, still changed the module; "
        "raise `times`, or take out the pass that never comes to rest"
    )
    assert error.__notes__ == ["in pass 'Repeat'"]
    assert await Repeat([count], times=1000)({"f": 0}) == {"f": 1000}


@pytest.mark.anyio
async def test_a_repeat_follows_the_rules_of_a_sequential() -> None:
    log: list[str] = []
    needed = logging_pass(log, "Needed")
    apass.register_pass("Needed", needed)
    try:
        body = [
            logging_pass(log, "High", opt_level=3),
            logging_pass(log, "Off"),
            logging_pass(log, "Needs", required=["Needed"]),
        ]
        async with PassContext(opt_level=2, disabled_pass=["Off"]):
            await Repeat(body, times=2)({})
    finally:
        apass.unregister_pass("Needed")
    assert log == ["run Needed", "run Needs"]


@pytest.mark.anyio
async def test_the_hooks_see_one_repeat_and_every_pass_within_it() -> None:
    log: list[str] = []
    async with PassContext(instruments=[Recorder("R", log)]):
        await Repeat([stepping([1, 1])])({"f": 0})
    step = ["R.should_run Step", "R.run_before_pass Step", "R.run_after_pass Step"]
    assert log == [
        "R.enter_pass_ctx",
        *("R.should_run Repeat", "R.run_before_pass Repeat"),
        *step,
        *step,
        "R.run_after_pass Repeat",
        "R.exit_pass_ctx",
    ]


@pytest.mark.anyio
async def test_new_objects_never_pass_for_those_of_an_earlier_round() -> None:
    """A fingerprint of a plain object goes by its identity, which is free again once the object is gone."""
    renew = apass.module_pass(lambda mod, ctx: {"f": object()}, opt_level=0, name="Renew")
    assert set(await Repeat([renew], times=90)({"f": 0})) == {"f"}


class Box(dict[str, Any]):
    """A module that a weak reference can watch."""


@pytest.mark.anyio
async def test_the_modules_of_earlier_rounds_are_let_go() -> None:
    boxes: list[weakref.ref[Box]] = []

    def count(mod: Module, ctx: PassContext) -> Module:
        box = Box(f=mod["f"] + 1)
        boxes.append(weakref.ref(box))
        return box

    result = await Repeat([apass.module_pass(count, opt_level=0, name="Count")], times=5)(Box(f=0))
    assert [box() for box in boxes] == [None, None, None, None, result]


class Lowered(Box):
    """A module of another stage."""


class ContentsAlone(DictAdapter):
    """Knows nothing of types."""

    def fingerprint(self, x: Any) -> str:
        return repr(sorted(x.items()))


CONTENTS_ALONE: Any = ContentsAlone()
apass.register_adapter(Box, CONTENTS_ALONE)
apass.register_adapter(Lowered, CONTENTS_ALONE)


@pytest.mark.anyio
async def test_modules_of_another_type_are_not_the_same_module() -> None:
    def lower(mod: Module, ctx: PassContext) -> Module:
        return Lowered(mod)

    assert type(await Repeat([apass.module_pass(lower, opt_level=0, name="Lower")])(Box(f=1))) is Lowered


@pytest.mark.anyio
async def test_other_tasks_run_while_a_repeat_never_suspends() -> None:
    beats: list[int] = []

    def work(mod: Module, ctx: PassContext) -> Module:
        end = perf_counter() + 0.002
        while perf_counter() < end:
            pass
        return {"f": mod["f"] + 1}

    async def beat() -> None:
        while True:
            beats.append(len(beats))
            await checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        await Repeat([apass.module_pass(work, opt_level=0, name="Work")], times=50)({"f": 0})
        group.cancel_scope.cancel()
    assert len(beats) >= 5


# If.


@backends
@settings(deadline=None)
@given(first=st.integers(0, 3), holds=st.booleans(), is_async=st.booleans(), has_other=st.booleans())
def test_an_if_is_one_of_its_branches(backend: str, first: int, holds: bool, is_async: bool, has_other: bool) -> None:
    def plain(mod: Module) -> bool:
        return holds

    async def later(mod: Module) -> bool:
        await checkpoint()
        return holds

    then, otherwise = [setting(1), setting(2)], [setting(3)] if has_other else None
    mod = {"f": first}
    got = apass.run(If(later if is_async else plain, then, otherwise), mod, backend=backend)
    assert got == ({"f": 2} if holds else {"f": 3} if has_other else mod)
    assert got is not mod or (not holds and not has_other)


@pytest.mark.anyio
async def test_the_predicate_sees_the_module_and_where_it_is_asked() -> None:
    seen: list[tuple[Module, tuple[str, ...]]] = []

    def predicate(mod: Module) -> bool:
        run = apass.current_run()
        assert run is not None
        seen.append((mod, run.path))
        return bool(mod)

    mod = {"f": 1}
    await Sequential([If(predicate, [setting(2)])])(mod)
    assert seen == [(mod, ("sequential", "If"))]


@pytest.mark.anyio
async def test_the_branch_not_taken_is_not_seen_by_the_hooks() -> None:
    log: list[str] = []
    async with PassContext(instruments=[Recorder("R", log)]):
        await If(lambda mod: False, [logging_pass(log, "A")], [logging_pass(log, "B")])({})
    assert [line for line in log if "run_before" in line] == ["R.run_before_pass If", "R.run_before_pass B"]


@pytest.mark.anyio
async def test_a_predicate_that_forgets_to_say_is_an_error() -> None:
    async def nothing(mod: Module) -> Any:
        return None

    error = await error_of(If(nothing, [setting(1)]), {})
    assert isinstance(error, PassResultError)
    assert str(error) == "the predicate of pass 'If' returned None; return a bool"


@pytest.mark.anyio
async def test_an_error_of_the_predicate_says_where() -> None:
    error = await error_of(Sequential([If(lambda mod: mod["g"], [setting(1)])]), {})
    assert (repr(error), error.__notes__) == ("KeyError('g')", ["in pass 'sequential > If'"])


# Race.


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


@backends
@settings(deadline=None)
@given(entrants=plans, mode=st.sampled_from(["none", "plain", "async"]))
def test_a_race_gives_the_result_of_one_of_its_passes(backend: str, entrants: list[Plan], mode: str) -> None:
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
    """Go over the errors of a group, flat as it must be."""
    for error in group.exceptions:
        assert not isinstance(error, BaseExceptionGroup)
        yield error


@pytest.mark.anyio
async def test_the_first_to_finish_wins_and_the_others_are_cancelled_and_awaited() -> None:
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
    async with PassContext(instruments=[Recorder("R", log)]) as ctx:
        assert await race({"f": 1}) == {"f": 2}
    assert log.count("slow has cleaned up") == 2
    assert log.count("R.run_after_pass_failed Slow") == 2
    assert log.index("R.run_after_pass Race") > max(i for i, line in enumerate(log) if "failed Slow" in line)
    assert ctx.diag_ctx.diagnostics == ()


@pytest.mark.anyio
async def test_of_passes_that_never_suspend_the_first_listed_wins_and_the_others_do_not_begin() -> None:
    log: list[str] = []
    assert await Race([setting(1), logging_pass(log, "B"), logging_pass(log, "C")])({}) == {"f": 1}
    assert log == []


@pytest.mark.anyio
async def test_with_a_key_all_run_to_their_end_at_once() -> None:
    begun = [anyio.Event() for _ in range(3)]

    async def meet(place: int, mod: Module) -> Module:
        begun[place].set()
        for event in begun:
            await event.wait()
        return {"f": -place}

    passes = [waiting(f"P{n}", partial(meet, n)) for n in range(3)]
    assert await Race(passes, key=lambda mod: mod["f"])({}) == {"f": -2}


@pytest.mark.anyio
async def test_of_equal_keys_the_first_listed_wins() -> None:
    async def late(mod: Module) -> Module:
        await anyio.wait_all_tasks_blocked()
        return {"f": "late"}

    assert await Race([waiting("Late", late), setting("soon")], key=lambda mod: 0)({}) == {"f": "late"}


def failing(name: str, error: BaseException) -> ModulePass[Module]:
    """Return a pass that raises `error`."""

    def fail(mod: Module, ctx: PassContext) -> Module:
        raise error

    return apass.module_pass(fail, opt_level=0, name=name)


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
async def test_a_loser_that_ends_all_the_same_does_not_win() -> None:
    async def stubborn(mod: Module) -> Module:
        with anyio.CancelScope(shield=True):
            await anyio.wait_all_tasks_blocked()
        return {"f": "stubborn"}

    async def quick(mod: Module) -> Module:
        await checkpoint()
        return {"f": "quick"}

    assert await Race([waiting("Stubborn", stubborn), waiting("Quick", quick)])({}) == {"f": "quick"}


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


@pytest.mark.anyio
async def test_alternatives_run_in_the_context_and_beneath_the_run_of_the_race() -> None:
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
async def test_the_steps_of_the_alternatives_count_for_the_race() -> None:
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
async def test_passes_that_a_sequential_would_not_run_take_no_part() -> None:
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
async def test_what_an_alternative_requires_runs_before_it() -> None:
    log: list[str] = []
    apass.register_pass("Needed", logging_pass(log, "Needed"))
    try:
        await Race([logging_pass(log, "A", required=["Needed"]), logging_pass(log, "B")], key=len)({})
    finally:
        apass.unregister_pass("Needed")
    assert log == ["run Needed", "run A", "run B"]


@pytest.mark.anyio
async def test_races_within_races_on_many_modules_leave_nothing_open() -> None:
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


# What cannot be made.


def is_large(mod: Module) -> bool:
    return len(mod) > 1


WRONG: Any = 3
SOME = [setting(1)]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Repeat[Module]([]), PassDefinitionError, "Repeat takes at least one pass"),
        (lambda: Repeat[Module](WRONG), TypeError, "Repeat takes a list of passes, not 3"),
        (
            lambda: Repeat(SOME, times=0),
            PassDefinitionError,
            "times must be an int of at least 1, or None for until it settles; not 0",
        ),
        (
            lambda: Repeat(SOME, times=True),
            PassDefinitionError,
            "times must be an int of at least 1, or None for until it settles; not True",
        ),
        (
            lambda: If(WRONG, SOME),
            PassDefinitionError,
            "If takes first a predicate, a function of the module, not 3",
        ),
        (lambda: If(is_large, WRONG), TypeError, "If takes a list of passes, not 3"),
        (lambda: If(is_large, SOME, WRONG), TypeError, "If(otherwise=...) takes a list of passes, not 3"),
        (lambda: Race(SOME, WRONG), PassDefinitionError, "key must be a function of the module, or None; not 3"),
        (
            lambda: Race(SOME, name=""),
            PassDefinitionError,
            "the name of a pass must be a string that is not empty, not ''",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == message


def test_a_combinator_is_written_with_what_is_not_as_usual() -> None:
    assert str(Repeat(SOME)) == "Repeat(Set)"
    assert str(Repeat(SOME, 3, True, 2, "O3", ["Set"])) == (
        "Repeat{times=3,strict=true,opt_level=2,name=O3,required=[Set]}(Set)"
    )
    assert str(If(is_large, SOME, [*SOME, *SOME])) == (
        "If{predicate=tests.test_combinators:is_large,otherwise=(Set,Set)}(Set)"
    )
    assert str(Race(SOME, is_large)) == "Race{key=tests.test_combinators:is_large}(Set)"
    with pytest.raises(TypeError, match=r"^<function .*<lambda> at .*> \(function\) cannot be written as text; "):
        str(If(lambda mod: True, SOME))


def test_combinators_are_equal_if_they_were_given_the_same() -> None:
    assert Repeat(SOME, times=3) == Repeat(SOME, times=3, strict=False)
    assert Repeat(SOME, times=3) != Repeat(SOME, times=4)
    assert Repeat(SOME) != Repeat([*SOME, *SOME])
    assert Repeat(SOME) != Race(SOME)
    assert If(is_large, SOME) == If(is_large, SOME, [])
    assert If(is_large, SOME) != If(is_large, SOME, SOME)
    assert If(is_large, SOME) != If(len, SOME)
    assert len({Repeat(SOME), Repeat(SOME), Race(SOME)}) == 2


def test_a_combinator_says_what_it_is_made_of() -> None:
    other = [setting(2)]
    assert Repeat([*SOME, *other]).children() == (*SOME, *other)
    assert If(is_large, SOME, other).children() == tuple(SOME)
    assert If(is_large, SOME, other).otherwise == tuple(other)
    assert Race([*SOME, *other], opt_level=2, required=["Set"]).info == PassInfo(2, "Race", ["Set"])
