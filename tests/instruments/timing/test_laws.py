"""`PassTimingInstrument` counts each call once, at its position, for any program."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass.core.run import enter_module
from apass.instruments import PassTiming, PassTimingInstrument
from tests.helpers.timings import Module, check_times

Path = tuple[str | None, ...]

LEAVES = ("plain", "suspend", "fail", "fail late", "cancel")
COMBINATORS = ("sequential", "functions", "catch")
PROGRAMS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.tuples(st.sampled_from(COMBINATORS), st.lists(inner, min_size=1, max_size=4)),
    max_leaves=12,
)

SCOPE: ContextVar[anyio.CancelScope] = ContextVar("scope")


@apass.pass_instrument
class Count:
    """Counts calls by module name and path of passes."""

    def __init__(self) -> None:
        self.begun: Counter[Path] = Counter()
        self.ended: Counter[Path] = Counter()
        self.failed: Counter[Path] = Counter()

    def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
        self.begun[current_path()] += 1

    async def run_after_pass(self, mod: Module, info: apass.PassInfo) -> None:
        self.ended[current_path()] += 1
        await anyio.lowlevel.checkpoint()

    def run_after_pass_failed(self, mod: Module, info: apass.PassInfo, error: BaseException) -> None:
        self.ended[current_path()] += 1
        self.failed[current_path()] += 1


def current_path() -> Path:
    run = apass.current_run()
    assert run is not None
    return (run.module, *run.path)


def make(program: Any) -> apass.Pass[Module]:
    """Return a pass that runs `program`."""
    if isinstance(program, str):
        return apass.module_pass(leaf(program), opt_level=0, name=program)
    kind, programs = program
    passes = [make(inner) for inner in programs]
    if kind == "sequential":
        return apass.Sequential(passes)
    if kind == "functions":
        return apass.function_pass(each(passes), opt_level=0, name=kind)
    return apass.module_pass(catch(passes), opt_level=0, name=kind)


def leaf(kind: str) -> Callable[[Module, apass.PassContext], Any]:
    async def suspend(mod: Module, ctx: apass.PassContext) -> Module:
        if kind == "cancel":
            SCOPE.get().cancel()
        await anyio.lowlevel.checkpoint()
        if kind == "fail late":
            raise ValueError(kind)
        return mod

    def plain(mod: Module, ctx: apass.PassContext) -> Module:
        if kind == "fail":
            raise ValueError(kind)
        return mod

    return plain if kind in ("plain", "fail") else suspend


def each(passes: list[apass.Pass[Module]]) -> Callable[[int, Module, apass.PassContext], Any]:
    async def run_all(func: int, mod: Module, ctx: apass.PassContext) -> int:
        for pass_ in passes:
            await pass_(mod)
        return func

    return run_all


def catch(passes: list[apass.Pass[Module]]) -> Callable[[Module, apass.PassContext], Any]:
    async def run_all(mod: Module, ctx: apass.PassContext) -> Module:
        for pass_ in passes:
            with anyio.CancelScope() as scope:
                before = SCOPE.set(scope)
                try:
                    await pass_(mod)
                except (ValueError, ExceptionGroup):
                    continue
                finally:
                    SCOPE.reset(before)
        return mod

    return run_all


def counted(timings: Iterable[PassTiming], above: Path, field: str) -> Counter[Path]:
    """Return one field of all timings, by module name and path of passes."""
    totals: Counter[Path] = Counter()
    for timing in timings:
        path = (*(above or (timing.module,)), timing.name)
        totals[path] += getattr(timing, field)
        totals += counted(timing.children, path, field)
    return +totals


@settings(deadline=None)
@given(PROGRAMS, st.integers(1, 4), st.sampled_from([1, 2, None]))
def test_every_call_is_counted_once_at_its_position(
    backend: str, program: Any, modules: int, limit: int | None
) -> None:
    timing, count = PassTimingInstrument(), Count()

    async def on_module(name: str, pass_: apass.Pass[Module]) -> None:
        enter_module(name)
        with suppress(ValueError, ExceptionGroup):
            await pass_({"f": 1, "g": 2, "h": 3})

    async def main() -> None:
        pass_ = make(program)
        ctx = apass.PassContext(instruments=[timing, count], max_concurrency=limit)
        async with ctx, anyio.create_task_group() as tasks:
            SCOPE.set(tasks.cancel_scope)
            for n in range(modules):
                tasks.start_soon(on_module, f"m{n}", pass_)

    anyio.run(main, backend=backend)
    profile, merged = timing.profile(), timing.profile(merge=True)
    assert counted(profile, (), "calls") == count.begun == count.ended
    assert counted(profile, (), "failed") == count.failed
    assert counted(profile, (), "unfinished") == counted(merged, (), "unfinished") == Counter()
    assert sum(counted(merged, (), "calls").values()) == count.begun.total()
    check_times([*profile, *merged])
