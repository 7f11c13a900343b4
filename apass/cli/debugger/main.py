"""The start of the debugger: a session, its screen, and their end."""

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import anyio
import anyio.lowlevel

from apass.cli.debugger.app import DebuggerApp
from apass.cli.debugger.pass_tree import PassTree
from apass.cli.debugger.session import DebugSession
from apass.cli.planning import Plan
from apass.concurrency.backend import backend_name
from apass.core.context import PassContext
from apass.errors import InputError
from apass.instruments.pause.instrument import PauseInstrument

__all__ = ["make_session", "run_debugger"]


def make_session(
    plan: Plan,
    make_context: Callable[[list[object]], PassContext],
    breakpoints: Iterable[str],
    others: Literal["run", "stop"],
    *,
    writes: bool,
) -> DebugSession:
    """Return a session that pauses at the first pass.

    Parameters:
        plan: the models and their pipelines.
        make_context: returns the context with the instruments that it receives.
        breakpoints: the texts of the breakpoints.
        others: what other modules do during a pause.
        writes: whether results are written.

    """
    pauses = PauseInstrument(breakpoints, others, watch_waits=True)
    pauses.interrupt()
    tree = PassTree([job.name for job in plan.jobs])
    # The tree first: a pass is in it when its module is paused.
    return DebugSession(plan, make_context([tree, pauses]), pauses, tree, writes=writes)


async def run_debugger(session: DebugSession) -> None:
    """Run a session and its screen, until the user quits.

    If the caller is cancelled, the screen is closed first, so that the terminal is as it was.

    Raises:
        InputError: if the event loop is not that of asyncio.

    """
    if backend_name() != "asyncio":
        raise InputError(f"the debugger runs on asyncio only, because textual does; got {backend_name()}")
    with TemporaryDirectory(prefix="apass-debug-") as scratch:
        await _run_in(session, Path(scratch))
    # A shield has kept the cancellation from this task.
    await anyio.lowlevel.checkpoint_if_cancelled()


async def _run_in(session: DebugSession, scratch: Path) -> None:
    app = DebuggerApp(session, scratch)

    async def close_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            session.stop()
            app.exit()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close_when_cancelled)
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as runs:
                runs.start_soon(session.run)
                await app.run_async()
                session.stop()
        tasks.cancel_scope.cancel()
