"""`--executor`: the executor that runs the passes of a command."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, cast

from apass.core.executor import Executor, check_executor, executor_in_force
from apass.errors import InputError

__all__ = ["INLINE", "PROCESS", "ExecutorScope", "executor_scope"]

ExecutorScope = AbstractAsyncContextManager[Executor | None]
"""Yields the executor within `async with`, or None for the event loop."""

PROCESS: Final = "process"
"""Worker processes on this machine."""
INLINE: Final = "inline"
"""The event loop of the command or the server, as in `PassContext(executor="inline")`."""


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
    try:
        executor = executor_in_force(check_executor("--executor", text))
    except ValueError as error:
        raise InputError(str(error)) from None
    # A cluster that does not exist is an error of the command line, and not of each module.
    return cast("ExecutorScope", executor) if text.startswith("dask") else nullcontext(executor)
