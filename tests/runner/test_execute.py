"""`execute`: hooks, layers and failures of one execution of a pass."""

import itertools
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import PassContext, PassInfo
from apass.core.run import current_module
from apass.instruments import ObservingInstrument
from apass.stores import MemoryStore

Module = dict[str, int]

PHASES = ("should_run", "run_before_pass", "run_after_pass", "run_after_pass_failed")
KINDS = ("plain", "async", "fails")


class Recorder(ObservingInstrument):
    """Records its calls; each hook is plain, async, or fails."""

    def __init__(self, name: str, kinds: dict[str, str], log: list[str]) -> None:
        self.name = name
        self.kinds = kinds
        self.log = log

    def call(self, hook: str, result: object = None) -> Any:
        """Record a call, and return the result."""
        self.log.append(f"{self.name}.{hook}")
        kind = self.kinds.get(hook, "plain")
        if kind == "fails":
            raise ValueError(f"{self.name}.{hook}")
        return self.later(result) if kind == "async" else result

    async def later(self, result: object) -> Any:
        """Return a result after a suspension."""
        await anyio.lowlevel.checkpoint()
        return result

    def should_run(self, mod: Module, info: PassInfo) -> Any:
        return self.call("should_run", True)

    def run_before_pass(self, mod: Module, info: PassInfo) -> Any:
        return self.call("run_before_pass")

    def run_after_pass(self, mod: Module, info: PassInfo) -> Any:
        return self.call("run_after_pass")

    def run_after_pass_failed(self, mod: Module, info: PassInfo, error: BaseException) -> Any:
        return self.call("run_after_pass_failed")


class Clock(ObservingInstrument):
    """Makes the runner measure hooks, for which it awaits each."""

    def on_hooks(self, run: apass.Run | None, start: float, end: float, busy: float) -> None:
        """Do nothing."""


def trace(kinds: list[dict[str, str]], *more: object, body_fails: bool = False, in_pipeline: bool = False) -> list[str]:
    """Return the calls of hooks around a pass, with the error at the end."""
    log: list[str] = []

    @apass.module_pass(opt_level=0)
    def Body(mod: Module, ctx: PassContext) -> Module:
        log.append("body")
        if body_fails:
            raise ValueError("body")
        return mod

    pass_: apass.Pass[Module] = apass.Sequential([Body, Body]) if in_pipeline else Body
    instruments = [Recorder(name, kind, log) for name, kind in zip("abc", kinds, strict=False)]
    try:
        apass.run(pass_, {"f": 1}, context=PassContext(instruments=[*instruments, *more]))
    except ValueError as error:
        notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("in pass")]
        log.append(f"{error}, {notes}")
    return log


def test_hooks_are_called_in_order() -> None:
    for kind in ("plain", "async"):
        kinds: dict[str, str] = dict.fromkeys(PHASES, kind)
        assert trace([kinds, kinds]) == [
            *("a.should_run", "b.should_run", "a.run_before_pass", "b.run_before_pass", "body"),
            *("a.run_after_pass", "b.run_after_pass"),
        ], kind


def test_failure_hooks_follow_the_start() -> None:
    cases = {
        # The first one has seen the start, the second one failed in its hook, the third one saw nothing.
        "run_before_pass": ["a.run_after_pass_failed"],
        # The first one has seen the end, the second one failed in its hook.
        "run_after_pass": ["c.run_after_pass_failed"],
        "should_run": [],
    }
    for hook, expected in cases.items():
        found = trace([{}, {hook: "fails"}, {}])
        assert [call for call in found if call.endswith("failed")] == expected, hook
        assert found[-1] == f"b.{hook}, []", hook
    found = trace([{}, {}], body_fails=True)
    assert found[-3:] == ["a.run_after_pass_failed", "b.run_after_pass_failed", "body, []"]


hooks = st.lists(st.dictionaries(st.sampled_from(PHASES), st.sampled_from(KINDS)), min_size=1, max_size=3)


@given(kinds=hooks, body_fails=st.booleans(), in_pipeline=st.booleans())
def test_measured_hooks_are_called_alike(kinds: list[dict[str, str]], body_fails: bool, in_pipeline: bool) -> None:
    plain = trace(kinds, body_fails=body_fails, in_pipeline=in_pipeline)
    assert trace(kinds, Clock(), body_fails=body_fails, in_pipeline=in_pipeline) == plain


def test_async_hooks_are_called_as_plain_ones() -> None:
    for hook, place in itertools.product(PHASES, range(3)):
        kinds: list[dict[str, str]] = [{}, {}, {}]
        kinds[place] = {hook: "async"}
        assert trace(kinds, in_pipeline=True) == trace([{}, {}, {}], in_pipeline=True), (hook, place)
        assert trace(kinds, body_fails=True) == trace([{}, {}, {}], body_fails=True), (hook, place)


@pytest.mark.anyio
async def test_instruments_of_a_pass_see_its_end_only() -> None:
    log: list[str] = []

    @apass.module_pass(opt_level=0)
    async def Choose(mod: Module, ctx: PassContext) -> Module:
        await ctx.override_instruments([Recorder("a", {}, log), Clock()])
        return mod

    async with PassContext():
        await apass.Sequential([Choose])({"f": 1})
    assert log == ["a.run_after_pass"] * 2


LOG: list[str] = []


@apass.register_property("execute.any")
def has_any(mod: Module) -> bool:
    """Record the check, and return True."""
    LOG.append(f"check {mod}")
    return True


class Add(apass.ModulePass[Module], opt_level=0, requires=["execute.any"], cacheable=True):
    """A pass with several layers."""

    async def open(self, ctx: PassContext) -> AsyncIterator[None]:
        LOG.append("open")
        yield
        LOG.append("close")

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        LOG.append("body")
        return {"f": mod["f"] + 1}


class Plain(apass.ModulePass[Module], opt_level=0):
    """A pass without layers."""

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return mod


@pytest.mark.anyio
async def test_layers_are_in_order() -> None:
    assert (Add.is_bare, Plain.is_bare, Plain().is_bare) == (False, True, True)
    store = MemoryStore()
    LOG.clear()
    for _ in range(2):
        async with PassContext(instruments=[Recorder("a", {}, LOG)], store=store):
            assert await Add()({"f": 1}) == {"f": 2}
    hooks_before, hooks_after = ["a.should_run", "a.run_before_pass"], ["a.run_after_pass"]
    first = ["open", *hooks_before, "check {'f': 1}", "body", *hooks_after, "close"]
    # A stored result has passed the checks.
    assert [*first, "open", *hooks_before, *hooks_after, "close"] == LOG


@pytest.mark.anyio
async def test_module_of_a_run_is_forgotten() -> None:
    seen: list[object] = []
    event = anyio.Event()

    async def look() -> None:
        await event.wait()
        seen.append(current_module())

    async with anyio.create_task_group() as group:

        @apass.module_pass(opt_level=0)
        def Start(mod: Module, ctx: PassContext) -> Module:
            group.start_soon(look)
            seen.append(current_module())
            return mod

        for pass_ in (Start, apass.Sequential([Start])):
            await pass_({"f": 1})
        event.set()
    assert seen == [{"f": 1}, {"f": 1}, None, None]
