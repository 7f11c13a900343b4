"""`Race`: which pass wins, and what the others are left to do."""

from collections.abc import Callable, Iterator
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
from apass.combinators import Race, Repeat
from tests.helpers.combinators import Module, backends, setting, waiting
from tests.helpers.recording import Recorder, logging_pass


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
async def test_the_key_is_asked_where_the_race_stands() -> None:
    paths: list[tuple[str, ...]] = []

    def key(mod: Module) -> int:
        run = apass.current_run()
        assert run is not None
        paths.append(run.path)
        return 1

    await Sequential([Race([setting(1), setting(2)], key=key)])({})
    assert paths == [("sequential", "Race")] * 2


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
async def test_the_steps_of_the_key_count_for_the_race() -> None:
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
