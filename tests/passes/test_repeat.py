"""`Repeat`: what it runs, what it returns, what it leaves behind."""

import weakref
from collections.abc import Sequence
from time import perf_counter

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import PassContext
from apass.errors import PipelineCycleError
from apass.passes.repeat import Repeat
from apass.testing import RecordingInstrument
from tests.helpers.combinators import CONTENTS_ALONE, Box, Module, error_of, setting, stepping
from tests.helpers.recording import logging_pass


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
            first = f"the module of round {since}" if since else "the input module"
            return (
                f"pass 'Repeat' runs in a cycle of length {rounds - since}: round {rounds} returned "
                f"{first} again; remove the pass that undoes the work of another"
            )
        states.append(new)
    if strict or times is None:
        return (
            f"pass 'Repeat' did not converge: round {last}, the last one allowed, still changed the module; "
            f"increase `times`, or remove the pass that never converges"
        )
    return states[-1]


@settings(deadline=None)
@given(
    table=st.lists(st.integers(0, 7), min_size=8, max_size=8),
    start=st.integers(0, 7),
    times=st.none() | st.integers(1, 9),
    strict=st.booleans(),
)
def test_repeat_equals_a_plain_loop(
    backend: str, table: list[int], start: int, times: int | None, strict: bool
) -> None:
    pass_ = Repeat([stepping(table)], times=times, strict=strict)
    try:
        result: int | str = apass.run(pass_, {"f": start}, backend=backend)["f"]
    except PipelineCycleError as error:
        result = str(error)
    assert result == plain_loop(table, start, times, strict)


@pytest.mark.anyio
async def test_round_runs_all_passes_in_order() -> None:
    log: list[str] = []
    passes = [logging_pass(log, "A"), stepping([1, 2, 3, 3]), logging_pass(log, "B")]
    assert await Repeat(passes)({"f": 0}) == {"f": 3}
    assert log == ["run A", "run B"] * 4


@pytest.mark.anyio
async def test_repeat_returns_an_unchanged_module() -> None:
    mod = {"f": 3}
    assert await Repeat([setting(3)])(mod) is mod
    assert await Repeat([stepping([0, 1, 2, 3])])(mod) is mod


@pytest.mark.anyio
async def test_repeat_without_times_must_converge() -> None:
    count = stepping(range(1, 2000), "Count")
    error = await error_of(Repeat([count]), {"f": 0})
    assert isinstance(error, PipelineCycleError)
    assert str(error) == (
        "pass 'Repeat' did not converge: round 100, the last one allowed, still changed the module; "
        "increase `times`, or remove the pass that never converges"
    )
    assert error.__notes__ == ["in pass 'Repeat'"]
    assert await Repeat([count], times=1000)({"f": 0}) == {"f": 1000}


@pytest.mark.anyio
async def test_repeat_follows_rules_of_sequential() -> None:
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
async def test_hooks_see_repeat_and_inner_passes() -> None:
    log: list[str] = []
    async with PassContext(instruments=[RecordingInstrument("R", log)]):
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
async def test_new_objects_are_not_confused_with_freed_ones() -> None:
    """The fingerprint of a plain object is its identity, which can be reused."""
    renew = apass.module_pass(lambda mod, ctx: {"f": object()}, opt_level=0, name="Renew")
    assert set(await Repeat([renew], times=90)({"f": 0})) == {"f"}


@pytest.mark.anyio
async def test_modules_of_earlier_rounds_are_released() -> None:
    boxes: list[weakref.ref[Box]] = []

    def count(mod: Module, ctx: PassContext) -> Module:
        box = Box(f=mod["f"] + 1)
        boxes.append(weakref.ref(box))
        return box

    result = await Repeat([apass.module_pass(count, opt_level=0, name="Count")], times=5)(Box(f=0))
    assert [box() for box in boxes] == [None, None, None, None, result]


class Lowered(Box):
    """A module of another stage."""


apass.register_adapter(Lowered, CONTENTS_ALONE)


@pytest.mark.anyio
async def test_modules_of_different_types_are_different() -> None:
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
