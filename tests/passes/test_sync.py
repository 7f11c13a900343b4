"""`run`: passes from synchronous code."""

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, module_pass
from apass.errors import PassContextError
from tests.helpers.recording import module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


@module_pass(opt_level=0)
async def Double(mod: Module, ctx: PassContext) -> Module:
    """Suspends, and fails for a negative `f`."""
    await checkpoint()
    if mod["f"] < 0:
        raise KeyError(mod["f"])
    return {"f": 2 * mod["f"]}


@pytest.mark.parametrize("inside", ["loop", "worker thread", "another thread"])
async def test_run_works_only_outside_an_event_loop(inside: str) -> None:
    done: list[object] = []

    def work() -> None:
        try:
            done.append(apass.run(Double, {"f": 1}))
        except PassContextError as error:
            done.append(str(error))

    if inside == "loop":
        work()
    elif inside == "worker thread":
        await anyio.to_thread.run_sync(work)
    else:
        thread = threading.Thread(target=work)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    says = "apass.run starts an event loop, but one is already running, as in a notebook; write `{}` instead"
    assert done == [says.format("await pass_(mod)") if inside == "loop" else {"f": 2}]


@pytest.mark.anyio
async def test_run_error_shows_how_to_enter_context() -> None:
    with pytest.raises(PassContextError, match=r"write `async with context: await pass_\(mod\)` instead"):
        apass.run(Double, {"f": 1}, context=PassContext(opt_level=3))


@pytest.mark.anyio
async def test_run_error_shows_how_to_await_text() -> None:
    with pytest.raises(PassContextError, match=r"write `await apass.parse_pipeline\(text\)\(mod\)` instead"):
        apass.run("Sequential", {"f": 1})


@pytest.mark.parametrize("context", [None, PassContext(opt_level=3)])
def test_run_runs_on_each_backend_under_a_context(anyio_backend: str, context: PassContext | None) -> None:
    level = module_pass_of(lambda mod, ctx: {"f": ctx.opt_level}, opt_level=0, name="Level")
    done = apass.run(level, {}, backend=anyio_backend, context=context)
    assert done == {"f": 2 if context is None else 3}


def test_run_raises_the_error_itself(anyio_backend: str) -> None:
    with pytest.raises(KeyError, match="-1"):
        apass.run(Double, {"f": -1}, backend=anyio_backend)


def test_run_rejects_an_unknown_backend() -> None:
    with pytest.raises(
        apass.errors.MissingExtraError, match="event loop 'curio' is not available; choose one of asyncio, trio"
    ):
        apass.run(Double, {"f": 1}, backend="curio")
