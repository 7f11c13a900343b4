"""`--executor`: the executor that runs the passes of a command."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, cast

from apass.cli.usage import wrong_choice
from apass.core.executor import Executor, executor_in_force
from apass.errors import InputError

__all__ = ["EXECUTORS", "INLINE", "PROCESS", "ExecutorScope", "executor_scope"]

ExecutorScope = AbstractAsyncContextManager[Executor | None]
"""Yields the executor within `async with`, or None for the event loop."""

PROCESS: Final = "process"
"""Worker processes on this machine."""
INLINE: Final = "inline"
"""The event loop of the command or the server, as in `PassContext(executor="inline")`."""
EXECUTORS: Final = (INLINE, PROCESS, "thread", "interpreter", "dask")
"""The values of `--executor`, beside the address of a Dask scheduler."""
DASK: Final = "dask://"
"""Prefix of the address of a Dask scheduler."""


def executor_scope(text: str | None, unsupported: Mapping[str, str]) -> ExecutorScope:
    """Return the executor that `--executor` names.

    Parameters:
        text: the value of the option; None for the event loop.
        unsupported: options in use whose instruments cannot observe passes in an executor, with the reasons.

    Raises:
        InputError: if there is no such executor, or `unsupported` is not empty.
        ExecutorError: if this version of Python cannot run it.
        MissingExtraError: if its library is not installed.

    """
    if text in (None, INLINE):
        return nullcontext(None)
    for option, reason in unsupported.items():
        raise InputError(f"{option} cannot be combined with --executor {text}: {reason}; leave one of them out")
    if text == "dask" or text.startswith(DASK):
        address = text.removeprefix(DASK) if text.startswith(DASK) else None
        if address == "":
            raise InputError(f"--executor {text} has no scheduler address; write {DASK}HOST:PORT, or dask")
        # Dask is an extra, and slow to import.
        from apass.executors.dask import DaskExecutor

        return cast("ExecutorScope", DaskExecutor(address and f"tcp://{address}"))
    if text not in EXECUTORS:
        raise InputError(wrong_choice("--executor", text, [*EXECUTORS, f"{DASK}HOST:PORT"]))
    return nullcontext(executor_in_force(cast("Any", text)))
