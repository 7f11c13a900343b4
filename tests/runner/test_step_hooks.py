"""Step hooks that raise: they end the pass, and leave the event loop intact."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.core.run import Run
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, int]


class RaisingSteps(apass.PassInstrument):
    """Instrument whose step hooks raise at a given step."""

    def __init__(self, hook: str, step: int) -> None:
        self.log: list[str] = []
        self.hook = hook
        self.left = step

    def count(self, hook: str) -> None:
        if hook == self.hook:
            self.left -= 1
            if self.left < 0:
                raise LookupError(hook)

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        self.count("run_after_step")

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        self.count("run_after_function_step")

    def run_after_pass_failed(self, mod: Any, info: apass.PassInfo, error: BaseException) -> None:
        self.log.append(f"{info.name} failed: {type(error).__name__}")

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        self.log.append(f"{run.function} failed")


async def nest(value: Any) -> Any:
    """Suspend within scopes and a task group."""
    await checkpoint()
    with anyio.move_on_after(60), anyio.CancelScope():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(checkpoint)
            await checkpoint()
    return value


def module_body(mod: Any, ctx: Any) -> Any:
    return nest(mod)


async def function_body(func: Any, mod: Any, ctx: Any) -> Any:
    return await nest(func)


def plain_body(func: Any, mod: Any, ctx: Any) -> Any:
    return func


def delegating_body(func: Any, mod: Any, ctx: Any) -> Any:
    return nest(func)


PASSES = {
    "module": module_pass_of(module_body),
    "function": function_pass_of(function_body),
    "plain": function_pass_of(plain_body),
    "delegating": function_pass_of(delegating_body),
}


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("hook", ["run_after_step", "run_after_function_step"])
@pytest.mark.parametrize("kind", PASSES)
async def test_step_hook_that_raises_ends_pass(
    kind: str, hook: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pass whose time slice is over yields, which is one more step.
    monkeypatch.setattr("apass.concurrency.scheduler.SLICE_SECONDS", float("inf"))
    instrument = RaisingSteps(hook, step)
    is_called = instrument.hook == "run_after_step" or kind != "module"
    if step > (1 if hook == "run_after_function_step" else 0) and kind == "plain":
        is_called = False  # a plain body has one step, and so has a pass of plain bodies
    async with apass.PassContext(instruments=[instrument]):
        if is_called:
            with anyio.fail_after(60), pytest.raises(LookupError, match=hook) as caught:
                await PASSES[kind]({"f": 1, "g": 2})
            assert any(note.startswith("in pass 'P'") for note in caught.value.__notes__)
            assert instrument.log[-1] == "P failed: LookupError"
        else:
            assert await PASSES[kind]({"f": 1, "g": 2}) == {"f": 1, "g": 2}
    await nest(0)


async def test_step_hook_that_raises_ends_waiting_body() -> None:
    async def wait(func: int, mod: Module, ctx: Any) -> int:
        await anyio.sleep_forever()
        return func

    instrument = RaisingSteps("run_after_function_step", 1)
    async with apass.PassContext(instruments=[instrument]):
        with anyio.fail_after(60), pytest.raises(LookupError):
            await function_pass_of(wait)({"f": 1, "g": 2})
    assert sorted(instrument.log) == ["P failed: LookupError", "f failed", "g failed"]


@pytest.mark.parametrize("kind", ["async", "plain"])
async def test_error_of_body_outranks_that_of_step_hook(kind: str) -> None:
    async def fail_later(func: int, mod: Module, ctx: Any) -> int:
        raise ValueError(func)

    def fail(func: int, mod: Module, ctx: Any) -> int:
        raise ValueError(func)

    async with apass.PassContext(instruments=[RaisingSteps("run_after_function_step", 0)]):
        with pytest.raises(ValueError, match="1") as caught:
            await function_pass_of(fail_later if kind == "async" else fail)({"f": 1})
    assert "and then a step hook raised LookupError: run_after_function_step" in caught.value.__notes__
