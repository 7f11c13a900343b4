"""The idle clock, and random orders of bodies that a seed repeats."""

import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.testing import idle_clock, interleave, run_pass

Module = dict[str, int]

HOUR = 3600
pytestmark = pytest.mark.both_loops

BACKENDS = st.sampled_from(["asyncio", "trio"])


def logging_pass(log: list[str]) -> apass.Pass[Module]:
    """Return a pass whose bodies log each of their steps."""

    async def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
        for step in range(3):
            log.append(f"{func} {step}")
            await checkpoint()
        return func + 1

    return apass.function_pass(body, opt_level=0, name="Log")


def steps_with(seed: int, backend: str, functions: int = 4) -> list[str]:
    """Return the steps of bodies under a seed."""
    log: list[str] = []
    mod = {f"f{index}": index for index in range(functions)}
    with interleave(seed):
        result = run_pass(logging_pass(log), mod, backend=backend)
    assert list(result.items()) == [(name, func + 1) for name, func in mod.items()]
    return log


async def timeout_of_an_hour() -> float:
    """Return the seconds that a timeout takes."""
    start = anyio.current_time()
    with anyio.move_on_after(HOUR):
        await anyio.sleep(2 * HOUR)
    return anyio.current_time() - start


def test_idle_clock_serves_plain_tests(anyio_backend: str) -> None:
    with idle_clock(anyio_backend) as (backend, options):
        assert anyio.run(timeout_of_an_hour, backend=backend, backend_options=options) == HOUR


@pytest.mark.anyio
@pytest.mark.usefixtures("idle_clock")
async def test_idle_clock_fixture_serves_async_tests() -> None:
    assert await timeout_of_an_hour() == HOUR


@pytest.mark.anyio
@pytest.mark.usefixtures("idle_clock")
async def test_deadline_of_context_follows_idle_clock() -> None:
    async def work(mod: Module, ctx: apass.PassContext) -> Module:
        await anyio.sleep(HOUR)
        return mod

    with pytest.raises(apass.errors.BudgetExceededError):
        async with apass.PassContext(deadline=HOUR / 2):
            await apass.module_pass(work, opt_level=0, name="Work")({})


def test_idle_clock_names_the_known_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="must be 'asyncio' or 'trio', got 'curio'"), idle_clock("curio"):
        pass
    monkeypatch.setitem(sys.modules, "trio.testing", None)
    with pytest.raises(apass.errors.MissingExtraError, match=r"pip install 'apass\[trio\]'"), idle_clock("trio"):
        pass


@given(st.integers(), BACKENDS)
def test_seed_repeats_the_order(seed: int, backend: str) -> None:
    assert steps_with(seed, backend) == steps_with(seed, backend)


def test_seeds_reach_every_order_of_two_bodies(backend: str) -> None:
    orders = {tuple(step[0] for step in steps_with(seed, backend, 2)) for seed in range(300)}
    assert len(orders) == 20  # the ways to interleave two bodies of three steps


def test_plain_bodies_run_in_random_order() -> None:
    def starts(seed: int) -> tuple[int, ...]:
        seen: list[int] = []

        def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
            seen.append(func)
            return func

        with interleave(seed):
            run_pass(apass.function_pass(body, opt_level=0, name="Plain"), {"f": 1, "g": 2, "h": 3})
        return tuple(seen)

    assert len({starts(seed) for seed in range(50)}) == 6


def test_passes_of_many_modules_are_interleaved(backend: str) -> None:
    async def main() -> tuple[str, ...]:
        log: list[str] = []
        async with apass.PassContext():
            await apass.optimize_all([{"f": 1}, {"g": 2}], logging_pass(log))
        return tuple(step[0] for step in log)

    orders: set[tuple[str, ...]] = set()
    for seed in range(60):
        with interleave(seed):
            orders.add(anyio.run(main, backend=backend))
    assert len(orders) > 10


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("cancel", [True, False])
async def test_cancelled_body_receives_cancellation_while_it_pauses(cancel: bool) -> None:
    ended: list[str] = []

    async def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
        try:
            await anyio.sleep(0 if not cancel else 60)
            ended.append("done")
        except anyio.get_cancelled_exc_class():
            ended.append("cancelled")
            raise
        return func

    pass_ = apass.function_pass(body, opt_level=0, name="Sleep")
    for seed in range(20):
        ended.clear()
        with interleave(seed), anyio.CancelScope() as scope:
            async with apass.PassContext(), anyio.create_task_group() as group:
                group.start_soon(pass_, {"f": 1, "g": 2})
                await anyio.wait_all_tasks_blocked()
                if cancel:
                    scope.cancel()
        assert ended == ["cancelled" if cancel else "done"] * 2


def raise_error(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Fail."""
    raise KeyError(func)


def test_failure_names_the_seed() -> None:
    fail = apass.function_pass(raise_error, opt_level=0, name="Fail")
    with pytest.raises(KeyError) as caught, interleave(42):
        run_pass(fail, {"f": 1})
    note = "bodies were interleaved with seed 42; APASS_SEED=42 repeats their order"
    assert caught.value.__notes__[-1] == note


@pytest.mark.parametrize("chosen", [None, 3])
def test_environment_sets_the_seed(chosen: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_SEED", "17")
    with interleave(chosen) as seed:
        assert seed == 17
    monkeypatch.setenv("APASS_SEED", "x")
    with pytest.raises(ValueError, match="APASS_SEED must be an integer, got 'x'"), interleave(chosen):
        pass


def test_seed_is_random_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APASS_SEED", raising=False)
    seeds: set[int] = set()
    for _ in range(20):
        with interleave() as seed:
            seeds.add(seed)
    assert len(seeds) > 1


def test_trio_is_random_again_after_the_block() -> None:
    run: Any = sys.modules["trio._core._run"]
    state: Callable[[], object] = run._r.getstate
    before = state()
    with interleave(1):
        assert state() != before
    assert state() == before


@pytest.mark.parametrize("seconds", [86_399.0, 86_401.0, 1e9])
def test_idle_clock_jumps_over_days(anyio_backend: str, seconds: float) -> None:
    async def main() -> float:
        with anyio.move_on_after(seconds):
            await anyio.Event().wait()
        return anyio.current_time()

    with idle_clock(anyio_backend) as (backend, options):
        start = anyio.run(anyio_time, backend=backend, backend_options=options)
    with idle_clock(anyio_backend) as (backend, options):
        assert anyio.run(main, backend=backend, backend_options=options) - start >= seconds


async def anyio_time() -> float:
    return anyio.current_time()
