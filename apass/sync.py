"""`run`: run a pass from synchronous code."""

import anyio

from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.core.tracebacks import hide_runner_frames
from apass.errors import MissingExtraError, PassContextError
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.util.checks import check_type

__all__ = ["awaited_call", "in_event_loop", "run"]


def run(pass_: Pass[ModT] | str, mod: ModT, *, backend: str = "asyncio", context: PassContext | None = None) -> ModT:
    """Run a pass from synchronous code in a new event loop, and return the new module.

    Parameters:
        pass_: the pass, or the text of a pipeline such as `"onnx.Default"`.
        mod: the module.
        backend: `"asyncio"` or `"trio"`.
        context: the `PassContext` to run in; None is a default one.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text, or `context` is not a PassContext.
        PassContextError: if an event loop is already running, as in a notebook; await the pass instead.
        MissingExtraError: if `backend` is not installed.

    """
    if isinstance(mod, Pass):
        raise TypeError("apass.run takes the pass first and then the module; write apass.run(pass_, mod)")
    the_pass: Pass[ModT] = as_pass("apass.run(pass_, mod)", pass_)
    check_type("context", context, PassContext | None)
    if in_event_loop():
        call = awaited_call(pass_)
        if context is not None:
            call = f"async with context: {call}"
        raise PassContextError(
            f"apass.run starts an event loop, but one is already running, as in a notebook; write `{call}` instead"
        )

    async def main() -> ModT:
        if context is None:
            return await the_pass(mod)
        async with context:
            return await the_pass(mod)

    if backend not in anyio.get_available_backends():
        choices = ", ".join(anyio.get_all_backends())
        raise MissingExtraError(
            f"event loop {backend!r} is not available; choose one of {choices}; for trio: pip install 'apass[trio]'"
        )
    try:
        return anyio.run(main, backend=backend)
    except BaseException as error:
        hide_runner_frames(error)
        raise


def in_event_loop() -> bool:
    """Return whether the caller runs in an event loop."""
    try:
        anyio.get_current_task()
    except RuntimeError:
        return False
    return True


def awaited_call(pass_: object) -> str:
    """Return the call in an event loop that runs a pass or a text, for messages."""
    return "await apass.parse_pipeline(text)(mod)" if isinstance(pass_, str) else "await pass_(mod)"
