"""Cancellation at every checkpoint of a pipeline.

Whatever was started ends, every hook is balanced, and every slot is returned.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassInfo, Sequential, current_run, function_pass, module_pass
from apass.errors import PassTimeoutError
from tests.helpers.context_state import state_of

pytestmark = pytest.mark.anyio

Module = dict[str, int]


class CheckpointProbe:
    """Counts the checkpoints of a run, and cancels the run at one of them."""

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
        """Count a checkpoint, cancel the run if it is the chosen one, and suspend."""
        self.steps += 1
        if self.steps == self.cancel_at and self.scope is not None:
            self.scope.cancel()
        await checkpoint()

    def cancellable(self) -> anyio.CancelScope:
        """Return the scope to cancel at checkpoint `cancel_at`."""
        self.scope = anyio.CancelScope()
        return self.scope

    def context(self, *names: str, **options: Any) -> PassContext:
        """Return a context with an instrument for each name, and an ample exit grace."""
        self.contexts.append(
            PassContext(instruments=[SuspendingInstrument(name, self) for name in names], exit_grace=60, **options)
        )
        return self.contexts[-1]

    def check(self) -> None:
        """Assert that hooks are balanced and that every context has all its slots."""
        assert self.exited == self.entered
        assert self.ended == self.begun
        assert [state_of(ctx).scheduler.free for ctx in self.contexts] == [ctx.max_concurrency for ctx in self.contexts]


class SuspendingInstrument:
    """Instrument whose hooks suspend twice, and which counts the completed ones."""

    def __init__(self, name: str, probe: CheckpointProbe) -> None:
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


def sample_pipeline(probe: CheckpointProbe) -> apass.Pass[Module]:
    """Return a nested pipeline with passes of every kind.

    The bodies of `Tune` enter a context and run a pipeline of their own.
    """

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


async def run_sample(probe: CheckpointProbe) -> dict[str, Module] | None:
    """Run the pipeline on `MODULES`; return None if it was cancelled."""
    with probe.cancellable():
        async with probe.context("A", "B", max_concurrency=2):
            return await apass.optimize_all(MODULES, sample_pipeline(probe))
    return None


MODULES = {"a": {"f": 1, "g": 2}, "b": {"f": 3}, "c": {"f": 4, "g": 5}}
DONE = {"a": {"f": 8, "g": 10, "new": 0}, "b": {"f": 12, "new": 0}, "c": {"f": 14, "g": 16, "new": 0}}


def cancel_at_every_checkpoint(run: Callable[[CheckpointProbe], Any], backend: str) -> int:
    """Run once for each checkpoint, cancelled there; return the number of checkpoints."""
    cancel_at = 0
    while True:
        cancel_at += 1
        probe = CheckpointProbe(cancel_at)
        result = anyio.run(run, probe, backend=backend)
        probe.check()
        if probe.steps < cancel_at:
            assert result is not None
            return cancel_at - 1


@pytest.mark.slow
def test_pipeline_can_be_cancelled_at_every_checkpoint(anyio_backend: str) -> None:
    assert cancel_at_every_checkpoint(run_sample, anyio_backend) > 200
    assert MODULES == {"a": {"f": 1, "g": 2}, "b": {"f": 3}, "c": {"f": 4, "g": 5}}
    assert anyio.run(run_sample, CheckpointProbe(0), backend=anyio_backend) == DONE


async def override(probe: CheckpointProbe) -> bool | None:
    with probe.cancellable():
        async with probe.context("A", "B") as ctx:
            await ctx.override_instruments([SuspendingInstrument("C", probe), SuspendingInstrument("D", probe)])
            await probe.pause()
            await ctx.override_instruments([SuspendingInstrument("E", probe)])
        return True
    return None


def test_override_can_be_cancelled_at_every_checkpoint(anyio_backend: str) -> None:
    """No instrument is exited twice or without having been entered."""
    assert cancel_at_every_checkpoint(override, anyio_backend) > 10


async def stream(probe: CheckpointProbe) -> int | None:
    count = 0
    with probe.cancellable():
        async with probe.context("A"), apass.optimize_stream(MODULES, sample_pipeline(probe), limit=2) as outcomes:
            async for _ in outcomes:
                await probe.pause()
                count += 1
        return count
    return None


@pytest.mark.slow
def test_stream_can_be_cancelled_at_every_checkpoint(anyio_backend: str) -> None:
    assert cancel_at_every_checkpoint(stream, anyio_backend) > 100


# Hooks that must complete.


class SlowExit:
    """An instrument whose exit or failure hook waits for an event, or forever."""

    def __init__(self, event: anyio.Event | None = None) -> None:
        self.event = event
        self.begun = anyio.Event()
        self.log: list[str] = []

    async def wait(self, hook: str) -> None:
        self.begun.set()
        await (anyio.sleep_forever() if self.event is None else self.event.wait())
        self.log.append(hook)

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
async def test_running_hook_ends_before_cancellation(kind: type[SlowExit]) -> None:
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
async def test_error_survives_cancellation_during_hooks(kind: type[SlowExit]) -> None:
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
async def test_hook_over_exit_grace_raises_timeout(kind: type[SlowExit], hook: str) -> None:
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


async def test_exit_grace_starts_with_cancellation() -> None:
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
        # Without a cancellation, the hook may take longer than the grace.
        with anyio.move_on_after(0.05):
            await done.wait()
        assert not done.is_set()
        tasks.cancel_scope.cancel()
    assert done.is_set()


async def test_cancelled_enter_exits_instruments_and_allows_reentry() -> None:
    probe = CheckpointProbe(4)
    ctx = probe.context("A", "B")
    before = PassContext.current()
    with probe.cancellable():
        await ctx.__aenter__()
    assert (probe.entered, PassContext.current() is before) == (Counter(A=1), True)
    probe.check()
    async with ctx:
        assert probe.entered == Counter(A=2, B=1)
    probe.check()


async def test_exit_error_after_cancelled_enter_is_raised() -> None:
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


async def test_shielded_body_keeps_its_result() -> None:
    @function_pass(opt_level=0)
    async def Stubborn(func: int, mod: Module, ctx: PassContext) -> int:
        with anyio.CancelScope(shield=True):
            await checkpoint()
        return func + 1

    results: list[Module] = []
    with anyio.CancelScope() as scope:
        async with PassContext() as ctx:
            state_of(ctx).scheduler.slice_ends = float("inf")
            scope.cancel()
            results.append(await Stubborn({"f": 1}))
    assert results == [{"f": 2}]
