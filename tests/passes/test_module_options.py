"""`timeout`, `on_error` and `executor` of module passes."""

import os
from pathlib import Path
from time import sleep
from typing import Any

import anyio
import pytest

import apass
from apass import PassContext, module_pass
from apass.errors import ExecutorError, PassResultError, PassTimeoutError
from apass.passes.base import ModulePass
from tests.helpers.recording import module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


def mark(mod: Module, ctx: PassContext) -> Module:
    """Record the process, the level, and what the current context is."""
    ctx.statistic("marked")
    PassContext.current().diag_ctx.warning("seen")
    return {**mod, "process": os.getpid(), "level": PassContext.current().opt_level}


async def mark_later(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep(0.001)
    return mark(mod, ctx)


def fail(mod: Module, ctx: PassContext) -> Module:
    raise ValueError("no")


def same(mod: Module, ctx: PassContext) -> Module:
    return mod


def nothing(mod: Module, ctx: PassContext) -> Any:
    return None


def sleep_long(mod: Module, ctx: PassContext) -> Module:
    Path(mod["started"]).touch()
    sleep(600)
    return mod


async def wait_forever(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep_forever()
    return mod


def fall_back(mod: Module, ctx: PassContext, error: Exception) -> Module:
    return {"fallback": str(error)}


class Counter(apass.PassInstrument):
    """Instrument that counts hooks and statistics."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        self.events.append(f"before {info.name}")

    def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        self.events.append(f"after {info.name}")

    def on_statistic(self, run: apass.Run | None, name: str, amount: float) -> None:
        self.events.append(f"{name} {amount}")


@pytest.mark.process
@pytest.mark.parametrize("body", [mark, mark_later])
@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_body_runs_in_executor(executor: Any, body: Any) -> None:
    counter = Counter()
    async with PassContext(opt_level=3, instruments=[counter]) as ctx:
        result = await module_pass_of(body, 0, "Mark", executor=executor)({"f": 1})
    assert (result["f"], result["level"], result["process"] == os.getpid()) == (1, 3, executor == "thread")
    assert counter.events == ["before Mark", "marked 1", "after Mark"]
    assert [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics] == ["seen"]


@pytest.mark.process
@pytest.mark.parametrize("executor", [None, "inline", "thread", "process"])
async def test_unchanged_module_is_same_object(executor: Any) -> None:
    mod = {"f": 1}
    assert await module_pass(same, 0, "Same", executor=executor)(mod) is mod
    with pytest.raises(PassResultError, match="pass 'Nothing' returned None"):
        await module_pass(nothing, 0, "Nothing", executor=executor)(mod)


@pytest.mark.process
@pytest.mark.parametrize("executor", [None, "thread", "process"])
async def test_on_error_applies_to_module(executor: Any) -> None:
    async with PassContext() as ctx:
        assert await module_pass(fail, 0, "Fail", executor=executor, on_error="keep")({"f": 1}) == {"f": 1}
        assert await module_pass(fail, 0, "Fail", executor=executor, on_error=fall_back)({}) == {"fallback": "no"}
        with pytest.raises(ValueError, match="no"):
            await module_pass(fail, 0, "Fail", executor=executor)({})
    assert [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics] == [
        "pass 'Fail' left the module as it was: ValueError: no",
        "pass 'Fail' fell back for the module: ValueError: no",
    ]


@pytest.mark.usefixtures("idle_clock")
@pytest.mark.parametrize("on_error", ["raise", "keep"])
async def test_timeout_cancels_async_body(on_error: Any) -> None:
    pass_ = module_pass(wait_forever, 0, "Wait", timeout=5, on_error=on_error)
    if on_error == "keep":
        assert await pass_({"f": 1}) == {"f": 1}
    else:
        with pytest.raises(PassTimeoutError, match=r"the body of pass 'Wait' took longer than 5 s"):
            await pass_({"f": 1})


@pytest.mark.slow
@pytest.mark.process
async def test_timeout_kills_process_of_body(tmp_path: Path) -> None:
    pass_ = module_pass(sleep_long, 0, "Sleep", timeout=1, executor="process")
    with anyio.fail_after(120), pytest.raises(PassTimeoutError, match=r"pass 'Sleep' took longer than 1 s"):
        await pass_({"started": str(tmp_path / "started")})


@pytest.mark.process
async def test_cancellation_kills_process_of_body(tmp_path: Path) -> None:
    started = tmp_path / "started"
    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(module_pass(sleep_long, 0, "Sleep", executor="process"), {"started": str(started)})
            while not started.exists():  # noqa: ASYNC110  another process creates it
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


@pytest.mark.process
async def test_unsendable_pass_fails_despite_on_error() -> None:
    def local(mod: Module, ctx: PassContext) -> Module:
        return mod

    unpicklable = module_pass(local, 0, "Local", executor="process", on_error="keep")
    with pytest.raises(ExecutorError, match="cannot be sent to another process"):
        await unpicklable({"f": 1})


class Halve(ModulePass[Module]):
    """A class of passes with options of the body."""

    info = apass.PassInfo(opt_level=0, name="Halve")
    timeout = 60.0
    on_error = "keep"

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        return {name: func // mod["by"] for name, func in mod.items()}


async def test_class_of_passes_sets_options() -> None:
    assert await Halve()({"f": 8, "by": 2}) == {"f": 4, "by": 1}
    assert await Halve()({"f": 8, "by": 0}) == {"f": 8, "by": 0}
