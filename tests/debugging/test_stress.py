"""`stress`, and schedules: interleavings that a seed repeats."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext
from apass.core.context import current_scope
from apass.debugging import Schedule
from apass.instruments import ReproducerInstrument
from apass.testing import scheduled

Module = dict[str, int]

MODULE: Module = {name: number for number, name in enumerate("abcdefghij")}
RACY = ("b", "f")
"""The functions whose bodies share a cell."""


def counting(is_strict: bool = False) -> apass.Pass[Module]:
    """Return a pass in which the bodies of `RACY` may lose an update of a cell."""

    async def count(mod: Module, ctx: PassContext) -> Module:
        cell = [100]
        names = {number: name for name, number in mod.items()}

        async def body(func: int, mod: Module, ctx: PassContext) -> int:
            if names[func] not in RACY:
                for _ in range(func % 3):
                    await checkpoint()
                return func + 1
            before = cell[0]
            await checkpoint()
            if is_strict and cell[0] != before:
                raise ValueError(f"lost an update of {names[func]}")
            cell[0] = before + func
            return func + 1

        return {**await apass.function_pass(body, opt_level=0, name="Update")(mod), "total": cell[0]}

    return apass.module_pass(count, opt_level=0, name="Count")


EXPECTED = {**{name: number + 1 for name, number in MODULE.items()}, "total": 106}


@pytest.mark.anyio
@pytest.mark.slow
async def test_stress_finds_the_two_bodies_that_race() -> None:
    tries: list[int] = []
    pipeline = apass.Sequential([apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Same"), counting()])
    found = await apass.stress(MODULE, pipeline, report=tries.append)
    assert found is not None
    assert found.schedule.functions == RACY
    assert found.position.text == "0:sequential/1:Count"
    assert sorted(found.steps) == ["b", "b", "f", "f"]
    assert found.steps not in (("b", "b", "f", "f"), ("f", "f", "b", "b"))
    assert tries == [*range(1, found.tries + 1)]
    assert found.expected == EXPECTED
    assert "-total: 106" in found.diff
    expected = "pass Count at 0:sequential/1:Count depends on the order of the bodies of b and f"
    assert str(found).splitlines()[0] == f"seed {found.schedule.seed}: {expected}"


@pytest.mark.anyio
@pytest.mark.slow
async def test_schedule_repeats_the_result() -> None:
    found = await apass.stress(MODULE, counting())
    assert found is not None
    traces: list[list[tuple[str, str]]] = []
    for _ in range(5):
        async with PassContext(instruments=[scheduled(found.schedule)]):
            assert await counting()(MODULE) == found.found
            scheduler: Any = current_scope().state.scheduler
            traces.append(list(scheduler.trace))
    assert all(trace == traces[0] for trace in traces)
    async with PassContext(instruments=[scheduled(Schedule(7, ()))]):
        assert await counting()(MODULE) == EXPECTED


def test_schedule_has_the_same_steps_on_each_loop() -> None:
    async def steps(seed: int) -> list[tuple[str, str]]:
        async with PassContext(instruments=[scheduled(seed)]):
            await counting()(MODULE)
            scheduler: Any = current_scope().state.scheduler
            return list(scheduler.trace)

    for seed in range(60):
        assert anyio.run(steps, seed) == anyio.run(steps, seed, backend="trio")


@pytest.mark.anyio
async def test_correct_pass_has_equal_results() -> None:
    async def body(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func + 1

    tries: list[int] = []
    pass_ = apass.function_pass(body, opt_level=0, name="Add")
    assert await apass.stress(MODULE, pass_, seeds=30, report=tries.append) is None
    assert len(tries) == 31
    with pytest.raises(ValueError, match="seeds must be an int of at least 1, got 0"):
        await apass.stress(MODULE, pass_, seeds=0)


@pytest.mark.anyio
async def test_random_pass_is_not_deterministic() -> None:
    numbers = itertools.count()
    # A result that differs in each run, and one that differs in every tenth run only.
    for name, drawn in (("always", lambda: next(numbers)), ("rarely", lambda: next(numbers) // 100)):

        def body(func: int, mod: Module, ctx: PassContext, drawn: Callable[[], int] = drawn) -> int:
            return drawn()

        found = await apass.stress(MODULE, apass.function_pass(body, opt_level=0, name="Draw"))
        assert found is not None, name
        assert (found.is_deterministic, found.steps) == (False, ()), name
        expected = "pass Draw at 0:Draw is not deterministic: two runs with the same order of steps differ"
        assert str(found).splitlines()[0] == expected, name
        assert found.diff, name


@pytest.mark.anyio
@pytest.mark.slow
async def test_reproducer_repeats_a_failing_interleaving(tmp_path: Path) -> None:
    found = await apass.stress(MODULE, counting(is_strict=True))
    assert found is not None
    assert str(found.found).startswith("ValueError: lost an update of ")
    assert found.schedule.functions == RACY
    assert found.diff == f"-no failure\n+{found.found}"
    apass.register_pass("stress.Count", lambda: counting(is_strict=True))
    try:
        instrument = ReproducerInstrument(tmp_path)
        pipeline = apass.parse_pipeline("Sequential,stress.Count")
        with pytest.raises(ValueError, match="lost an update"):
            async with PassContext(instruments=[instrument, scheduled(found.schedule)]):
                await pipeline(MODULE)
        (folder,) = instrument.folders
        assert apass.read_reproducer(folder).context.schedule == found.schedule
        for _ in range(3):
            assert (await apass.replay(folder, "stress.Count")).verdict is apass.debugging.Verdict.SAME
    finally:
        apass.unregister_pass("stress.Count")


@pytest.mark.parametrize("wrong", ["7", True, 1.5])
def test_invalid_schedule_raises(wrong: Any) -> None:
    with pytest.raises(TypeError, match="seed must be an int or a Schedule, got "):
        scheduled(wrong)


@pytest.mark.anyio
async def test_exit_of_a_pass_is_an_outcome() -> None:
    def leave(mod: Module, ctx: PassContext) -> Module:
        raise SystemExit(3)

    assert await apass.stress(MODULE, apass.module_pass(leave, opt_level=0), seeds=2) is None
