"""Cancellation at every point where a pipeline waits: what must end does end, and nothing is lost or left behind."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo, PassTimeoutError, Sequential, current_run, function_pass, module_pass

pytestmark = pytest.mark.anyio

Module = dict[str, int]


class Probe:
    """Counts the points where a run waits, and cancels the run at one of them."""

    def __init__(self, cancel_at: int) -> None:
        self.cancel_at = cancel_at
        self.steps = 0
        self.scope: anyio.CancelScope | None = None
        self.contexts: list[PassContext] = []
        self.entered: Counter[str] = Counter()
        self.exited: Counter[str] = Counter()
        self.begun: Counter[object] = Counter()
        self.ended: Counter[object] = Counter()

    async def pause(self) -> None:
        """Wait for a turn of the loop."""
        self.steps += 1
        if self.steps == self.cancel_at and self.scope is not None:
            self.scope.cancel()
        await checkpoint()

    def cancellable(self) -> anyio.CancelScope:
        """Return the scope that is cancelled at that point."""
        self.scope = anyio.CancelScope()
        return self.scope

    def context(self, *names: str, **given: Any) -> PassContext:
        """Return a context with an instrument for each name; the hooks have the time they need."""
        self.contexts.append(PassContext(instruments=[Watching(name, self) for name in names], exit_grace=60, **given))
        return self.contexts[-1]

    def check(self) -> None:
        """Every instrument that was entered was left, every pass announced ended, and every slot is back."""
        assert self.exited == self.entered
        assert self.ended == self.begun
        assert [ctx.gate.free for ctx in self.contexts] == [ctx.max_concurrency for ctx in self.contexts]


class Watching:
    """An instrument that waits in every hook, twice, and counts those that came to their end."""

    def __init__(self, name: str, probe: Probe) -> None:
        self.name = name
        self.probe = probe

    async def count(self, counter: Counter[Any], key: object) -> None:
        await self.probe.pause()
        await self.probe.pause()
        counter[key] += 1

    async def enter_pass_ctx(self) -> None:
        await self.count(self.probe.entered, self.name)

    async def exit_pass_ctx(self) -> None:
        await self.count(self.probe.exited, self.name)

    async def should_run(self, mod: Module, info: PassInfo) -> bool:
        await self.probe.pause()
        return True

    async def run_before_pass(self, mod: Module, info: PassInfo) -> None:
        await self.count(self.probe.begun, (self.name, current_run()))

    async def run_after_pass(self, mod: Module, info: PassInfo) -> None:
        self.probe.ended[self.name, current_run()] += 1
        await self.probe.pause()

    async def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
        await self.count(self.probe.ended, (self.name, current_run()))


def realistic(probe: Probe) -> apass.Pass[Module]:
    """Return a pipeline with passes of every kind, nested, one of them with a context of its own in each body."""

    @function_pass(opt_level=0)
    async def Add(func: int, mod: Module, ctx: PassContext) -> int:
        await probe.pause()
        return func + 1

    @function_pass(opt_level=0)
    async def Tune(func: int, mod: Module, ctx: PassContext) -> int:
        async with probe.context("T", max_concurrency=1):
            await probe.pause()
            inner = await Sequential([Add])({"x": func, "y": func})
        return sum(inner.values())

    @function_pass(opt_level=0)
    def Plain(func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1

    @module_pass(opt_level=0)
    async def Whole(mod: Module, ctx: PassContext) -> Module:
        await probe.pause()
        return {**mod, "new": 0}

    return Sequential([Add, Sequential([Plain, Tune], name="Inner"), Whole])


async def run_realistic(probe: Probe) -> dict[str, Module] | None:
    """Run it on a few modules; None if it was cancelled."""
    with probe.cancellable():
        async with probe.context("A", "B", max_concurrency=2):
            return await apass.optimize_all(MODULES, realistic(probe))
    return None


MODULES = {"a": {"f": 1, "g": 2}, "b": {"f": 3}, "c": {"f": 4, "g": 5}}
DONE = {"a": {"f": 8, "g": 10, "new": 0}, "b": {"f": 12, "new": 0}, "c": {"f": 14, "g": 16, "new": 0}}


def every_step(run: Callable[[Probe], Any], backend: str) -> int:
    """Run once for each point where it waits, cancelled there, until it is not; return how many those were."""
    cancel_at = 0
    while True:
        cancel_at += 1
        probe = Probe(cancel_at)
        answer = anyio.run(run, probe, backend=backend)
        probe.check()
        if probe.steps < cancel_at:
            assert answer is not None
            return cancel_at - 1


def test_a_pipeline_can_be_cancelled_wherever_it_waits(anyio_backend: str) -> None:
    assert every_step(run_realistic, anyio_backend) > 200
    assert MODULES == {"a": {"f": 1, "g": 2}, "b": {"f": 3}, "c": {"f": 4, "g": 5}}
    assert anyio.run(run_realistic, Probe(0), backend=anyio_backend) == DONE


async def override(probe: Probe) -> bool | None:
    with probe.cancellable():
        async with probe.context("A", "B") as ctx:
            await ctx.override_instruments([Watching("C", probe), Watching("D", probe)])
            await probe.pause()
            await ctx.override_instruments([Watching("E", probe)])
        return True
    return None


def test_instruments_can_be_overridden_wherever_that_is_cancelled(anyio_backend: str) -> None:
    """No instrument is left that was not entered, and none twice."""
    assert every_step(override, anyio_backend) > 10


async def stream(probe: Probe) -> int | None:
    taken = 0
    with probe.cancellable():
        async with probe.context("A"), apass.optimize_stream(MODULES, realistic(probe), limit=2) as outcomes:
            async for _ in outcomes:
                await probe.pause()
                taken += 1
        return taken
    return None


def test_a_stream_can_be_cancelled_wherever_it_waits(anyio_backend: str) -> None:
    assert every_step(stream, anyio_backend) > 100


# Hooks that must end.


class SlowExit:
    """An instrument whose exit and failure hooks wait for an event, or for ever."""

    def __init__(self, event: anyio.Event | None = None) -> None:
        self.event = event
        self.begun = anyio.Event()
        self.log: list[str] = []

    async def wait(self, what: str) -> None:
        self.begun.set()
        await (anyio.sleep_forever() if self.event is None else self.event.wait())
        self.log.append(what)

    async def exit_pass_ctx(self) -> None:
        await self.wait("exit")


class SlowFailure(SlowExit):
    exit_pass_ctx: Any = None

    async def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> None:
        await self.wait("failed")


@module_pass(opt_level=0)
async def Wait(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep_forever()
    return mod


@module_pass(opt_level=0)
async def Fail(mod: Module, ctx: PassContext) -> Module:
    raise KeyError("of the pass")


@pytest.mark.parametrize("kind", [SlowExit, SlowFailure])
async def test_a_hook_that_is_at_work_when_the_cancellation_comes_ends_first(kind: type[SlowExit]) -> None:
    slow = kind(anyio.Event())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_in, slow, Wait)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await slow.begun.wait()
            assert slow.log == []
            assert slow.event is not None
            slow.event.set()
    assert len(slow.log) == 1


async def run_in(instrument: object, pass_: apass.Pass[Module], exit_grace: float = 60.0) -> None:
    async with PassContext(instruments=[instrument], exit_grace=exit_grace):
        await pass_({})


@pytest.mark.parametrize("kind", [SlowExit, SlowFailure])
async def test_an_error_is_not_lost_to_a_cancellation_that_comes_while_hooks_end(kind: type[SlowExit]) -> None:
    slow, caught = kind(anyio.Event()), list[BaseException]()

    async def run() -> None:
        try:
            await run_in(slow, Fail)
        except KeyError as error:
            caught.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await slow.begun.wait()
        tasks.cancel_scope.cancel()
        assert slow.event is not None
        slow.event.set()
    assert [error.args for error in caught] == [("of the pass",)]


@pytest.mark.parametrize(
    ("kind", "hook"), [(SlowExit, "exit_pass_ctx"), (SlowFailure, "run_after_pass_failed")], ids=["exit", "failure"]
)
async def test_a_hook_over_its_grace_is_reported(kind: type[SlowExit], hook: str) -> None:
    slow, caught = kind(), list[PassTimeoutError]()
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await run_in(slow, Wait, exit_grace=0.02)
        except PassTimeoutError as error:
            caught.append(error)
    assert [str(error) for error in caught] == [
        f"{hook} of instrument {kind.__name__!r} did not end within 0.02 s of a cancellation"
    ]
    assert slow.log == []


async def test_the_grace_begins_with_the_cancellation() -> None:
    slow = SlowExit()
    done = anyio.Event()

    async def run() -> None:
        with pytest.raises(PassTimeoutError):
            async with PassContext(instruments=[slow], exit_grace=0.02):
                pass
        done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await slow.begun.wait()
        # Without a cancellation it has all the time it wants.
        with anyio.move_on_after(0.05):
            await done.wait()
        assert not done.is_set()
        tasks.cancel_scope.cancel()
    assert done.is_set()


async def test_a_cancelled_enter_leaves_those_entered_and_the_context_can_be_entered_again() -> None:
    probe = Probe(4)
    ctx = probe.context("A", "B")
    before = PassContext.current()
    with probe.cancellable():
        await ctx.__aenter__()
    assert (probe.entered, PassContext.current() is before) == (Counter(A=1), True)
    probe.check()
    async with ctx:
        assert probe.entered == Counter(A=2, B=1)
    probe.check()


async def test_an_exit_that_fails_after_a_cancelled_enter_is_raised() -> None:
    class Bad:
        async def exit_pass_ctx(self) -> None:
            await checkpoint()
            raise ValueError("of the exit")

    class Hang:
        async def enter_pass_ctx(self) -> None:
            await anyio.sleep_forever()

    with pytest.raises(ValueError, match="of the exit") as caught, anyio.move_on_after(0.01):
        await PassContext(instruments=[Bad(), Hang()]).__aenter__()
    assert isinstance(caught.value.__cause__, anyio.get_cancelled_exc_class())


async def test_a_body_that_will_not_be_cancelled_keeps_its_result() -> None:
    @function_pass(opt_level=0)
    async def Stubborn(func: int, mod: Module, ctx: PassContext) -> int:
        with anyio.CancelScope(shield=True):
            await checkpoint()
        return func + 1

    done: list[Module] = []
    with anyio.CancelScope() as scope:
        async with PassContext() as ctx:
            ctx.gate.turn_ends = float("inf")
            scope.cancel()
            done.append(await Stubborn({"f": 1}))
    assert done == [{"f": 2}]
