"""Laws of the runner for random pipelines.

Bodies suspend, fail and nest at random; runs are cancelled at random checkpoints.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apass
from apass import PassContext, PassInfo, Run, current_run
from tests.helpers.amounts import amount
from tests.helpers.context_state import state_of

Module = dict[str, int]
VAR: ContextVar[object] = ContextVar("VAR", default=None)

# Pipelines as plain data.


@dataclass(frozen=True)
class Body:
    """Body of a function: suspends, runs an inner pipeline, and fails."""

    delays: int
    adds: int
    fails: bool = False
    inner: "Spec | None" = None
    limit: int | None = None


@dataclass(frozen=True)
class Functions:
    """A function pass; the function at index n has the body n modulo their number."""

    bodies: tuple[Body, ...]
    plain: bool


@dataclass(frozen=True)
class Whole:
    """A module pass: suspends, then adds a function."""

    delays: int
    fails: bool = False


@dataclass(frozen=True)
class Row:
    """A Sequential."""

    passes: tuple["Spec", ...]


Spec = Functions | Whole | Row


@dataclass(frozen=True)
class Watch:
    """An instrument: how often its hooks suspend, and the hook that fails."""

    delays: int
    fails: str = ""


def specs(can_fail: bool) -> st.SearchStrategy[Spec]:
    fails = st.booleans().filter(lambda fails: can_fail or not fails)
    rarely = st.tuples(fails, fails, fails).map(all)
    delays = st.integers(0, 3)

    def bodies(inner: st.SearchStrategy[Spec] | None) -> st.SearchStrategy[Body]:
        inside = st.none() if inner is None else st.none() | inner
        return st.builds(Body, delays, st.integers(0, 9), rarely, inside, st.sampled_from([None, 1, 2, 256]))

    def passes(inner: st.SearchStrategy[Spec] | None) -> st.SearchStrategy[Spec]:
        some = st.lists(bodies(inner), min_size=1, max_size=3).map(tuple)
        return st.builds(Functions, some, st.booleans()) | st.builds(Whole, delays, rarely)

    return st.recursive(
        passes(None),
        lambda inner: passes(inner) | st.builds(Row, st.lists(inner, max_size=3).map(tuple)),
        max_leaves=6,
    )


MODULES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 99), max_size=5)
LIMITS = st.sampled_from([1, 2, 5, None])
BACKENDS = st.sampled_from(["asyncio", "trio"])
LAW = settings(max_examples=amount(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])


# The reference: sequential execution.


def expected_result(spec: Spec, mod: Module) -> Module:
    """Return the result of a pipeline, computed by the simplest program."""
    match spec:
        case Functions(bodies, plain):
            numbered = enumerate(mod.items())
            return {name: expected_body_result(bodies[n % len(bodies)], func, plain) for n, (name, func) in numbered}
        case Whole():
            return {**mod, f"new{len(mod)}": len(mod)}
        case Row(passes):
            for inner in passes:
                mod = expected_result(inner, mod)
            return mod


def expected_body_result(body: Body, func: int, plain: bool) -> int:
    inner = 0 if body.inner is None or plain else sum(expected_result(body.inner, sub_module(func)).values())
    return (func + body.adds + inner) % 1009


def sub_module(func: int) -> Module:
    return {"x": func, "y": func + 1, "z": func + 2}


# Execution in apass.


class BoomError(Exception):
    """Raised by bodies, passes and hooks that fail."""


@dataclass
class PipelineRunner:
    """Runs pipelines, records hooks and leaks, and cancels at step `cancel_at`."""

    watches: tuple[Watch, ...]
    limit: int | None
    cancel_at: int = -1
    steps: int = 0
    scope: anyio.CancelScope | None = None
    contexts: list[PassContext] = field(default_factory=list[PassContext])
    leaks: list[str] = field(default_factory=list[str])
    hook_counts: dict[tuple[int, Run], Counter[str]] = field(default_factory=dict[tuple[int, Run], Counter[str]])

    async def pause(self, times: int) -> None:
        for _ in range(times):
            self.steps += 1
            if self.steps == self.cancel_at and self.scope is not None:
                self.scope.cancel()
            await checkpoint()

    def context(self, limit: int | None) -> PassContext:
        watches = [self.instrument(index, watch) for index, watch in enumerate(self.watches)]
        self.contexts.append(PassContext(max_concurrency=limit, instruments=watches, exit_grace=60))
        return self.contexts[-1]

    def instrument(self, index: int, watch: Watch) -> object:
        def hook(kind: str) -> Callable[..., Awaitable[None]]:
            async def record(hooks: object, mod: Module, info: PassInfo, error: object = None) -> None:
                run = current_run()
                assert run is not None
                counts = self.hook_counts.setdefault((index, run), Counter())
                if kind != "before":
                    counts["ends"] += 1
                await self.pause(watch.delays)
                if watch.fails == f"{kind} {info.name}":
                    raise BoomError(watch.fails)
                counts[f"{kind} done"] += 1

            return record

        hooks = {"run_before_pass": "before", "run_after_pass": "after", "run_after_pass_failed": "failed"}
        return type("Watching", (), {name: hook(kind) for name, kind in hooks.items()})()

    def build(self, spec: Spec, outer: object) -> apass.Pass[Module]:
        match spec:
            case Functions(bodies, plain):
                return self.function_pass(bodies, plain, outer)
            case Whole(delays, fails):
                return self.module_pass(delays, fails)
            case Row(passes):
                return apass.Sequential([self.build(inner, outer) for inner in passes], name="Row")

    def module_pass(self, delays: int, fails: bool) -> apass.Pass[Module]:
        async def add(mod: Module, ctx: PassContext) -> Module:
            await self.pause(delays)
            if fails:
                raise BoomError("a module pass")
            return {**mod, f"new{len(mod)}": len(mod)}

        return apass.module_pass(add, opt_level=0, name="Whole")

    def function_pass(self, bodies: tuple[Body, ...], plain: bool, outer: object) -> apass.Pass[Module]:
        def body_of(mod: Module) -> Body:
            run = current_run()
            assert run is not None
            assert run.function is not None
            return bodies[list(mod).index(run.function) % len(bodies)]

        def plain_body(func: int, mod: Module, ctx: PassContext) -> int:
            body = body_of(mod)
            self.check(outer)
            VAR.set(object())
            if body.fails:
                raise BoomError("a plain body")
            return expected_body_result(body, func, plain)

        async def async_body(func: int, mod: Module, ctx: PassContext) -> int:
            body = body_of(mod)
            self.check(outer)
            value = object()
            VAR.set(value)
            await self.pause(body.delays)
            inner = 0 if body.inner is None else await self.run_inner(body, func, value)
            self.check(value)
            if body.fails:
                raise BoomError("a body")
            return (func + body.adds + inner) % 1009

        return apass.function_pass(plain_body if plain else async_body, opt_level=0, name="Functions")

    async def run_inner(self, body: Body, func: int, value: object) -> int:
        assert body.inner is not None
        pass_, mod = self.build(body.inner, value), sub_module(func)
        if body.limit is None:
            return sum((await pass_(mod)).values())
        async with self.context(body.limit):
            return sum((await pass_(mod)).values())

    def check(self, expected: object) -> None:
        if VAR.get() is not expected:
            self.leaks.append("a body saw a variable set by another body")

    async def run(self, spec: Spec, modules: list[Module], jobs: int | None) -> list[Module] | BaseException | None:
        """Return the results, the error, or None if the run was cancelled."""
        tasks = len(anyio.get_running_tasks())
        outer = object()
        VAR.set(outer)
        result: list[Module] | BaseException | None = None
        with anyio.fail_after(60), anyio.CancelScope() as self.scope:
            try:
                async with self.context(self.limit):
                    result = await apass.optimize_all(modules, self.build(spec, outer), limit=jobs)
            except (BoomError, BaseExceptionGroup) as error:
                result = error
        self.check(outer)
        await checkpoint()
        assert len(anyio.get_running_tasks()) == tasks
        return result

    def check_balance(self) -> None:
        """Assert that all slots are free, no variable leaked, and hooks are balanced."""
        for ctx in self.contexts:
            assert state_of(ctx).scheduler.free == (
                float("inf") if ctx.max_concurrency is None else ctx.max_concurrency
            )
        assert self.leaks == []
        for counts in self.hook_counts.values():
            assert counts["ends"] == counts["before done"]


WATCHES = st.lists(st.builds(Watch, st.integers(0, 2)), max_size=2).map(tuple)
FAULTY = st.sampled_from([f"{kind} {name}" for kind in ("before", "after") for name in ("Functions", "Whole", "Row")])
FAULTY_WATCHES = st.lists(st.builds(Watch, st.integers(0, 2), st.just("") | FAULTY), max_size=3).map(tuple)


@LAW
@given(specs(can_fail=False), st.lists(MODULES, max_size=3), WATCHES, LIMITS, LIMITS, BACKENDS)
def test_result_equals_sequential_execution(
    spec: Spec,
    modules: list[Module],
    watches: tuple[Watch, ...],
    limit: int | None,
    jobs: int | None,
    backend: str,
) -> None:
    before = [dict(mod) for mod in modules]
    runner = PipelineRunner(watches, limit)
    results: Any = anyio.run(runner.run, spec, modules, jobs, backend=backend)
    assert results == [expected_result(spec, mod) for mod in before]
    assert [list(mod) for mod in results] == [list(expected_result(spec, mod)) for mod in before]
    assert modules == before
    runner.check_balance()


@LAW
@given(specs(can_fail=True), st.lists(MODULES, max_size=3), FAULTY_WATCHES, LIMITS, LIMITS, BACKENDS)
def test_failures_return_slots_and_raise_flat_errors(
    spec: Spec,
    modules: list[Module],
    watches: tuple[Watch, ...],
    limit: int | None,
    jobs: int | None,
    backend: str,
) -> None:
    before = [dict(mod) for mod in modules]
    runner = PipelineRunner(watches, limit)
    result = anyio.run(runner.run, spec, modules, jobs, backend=backend)
    match result:
        case BaseExceptionGroup():
            assert [type(error) for error in result.exceptions] == [BoomError] * len(result.exceptions)
        case BoomError():
            assert any("in pass" in note for note in result.__notes__)
        case _:
            assert result == [expected_result(spec, mod) for mod in before]
    assert modules == before
    runner.check_balance()


@LAW
@given(
    specs(can_fail=True),
    st.lists(MODULES, max_size=3),
    FAULTY_WATCHES,
    st.tuples(LIMITS, LIMITS),
    BACKENDS,
    st.integers(1, 60),
)
def test_cancellation_at_any_checkpoint_returns_slots(
    spec: Spec,
    modules: list[Module],
    watches: tuple[Watch, ...],
    limits: tuple[int | None, int | None],
    backend: str,
    cancel_at: int,
) -> None:
    before = [dict(mod) for mod in modules]
    runner = PipelineRunner(watches, limits[0], cancel_at)
    result: Any = anyio.run(runner.run, spec, modules, limits[1], backend=backend)
    assert {type(leaf) for leaf in getattr(result, "exceptions", [result])} <= {BoomError, list, type(None)}
    assert result is not None or runner.steps >= cancel_at
    assert modules == before
    runner.check_balance()
