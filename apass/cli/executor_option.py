"""`--executor`: where the command line sends models to be optimized."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from typing import Any, Final, cast

from apass.cli.inputs import InputError
from apass.core.executor import Executor, executor_in_force
from apass.errors import did_you_mean

__all__ = ["ExecutorScope", "executor_scope"]

ExecutorScope = AbstractAsyncContextManager[Executor | None]
"""Has the executor ready within `async with`; None to stay in the event loop."""

_NAMES: Final = ("process", "thread", "interpreter", "dask")
DASK: Final = "dask://"
"""Begins the address of a cluster's scheduler."""


def executor_scope(text: str | None, blind: Sequence[str]) -> ExecutorScope:
    """Return the executor that `--executor` asks for.

    Raises:
        InputError: if there is none of that name, or options, `blind`, ask for what would see nothing of what it does.
        ExecutorError: if this Python cannot run it.
        MissingExtraError: if its library is not installed.

    """
    if text is None:
        return nullcontext(None)
    if blind:
        raise InputError(f"--executor sends models elsewhere, where {', '.join(blind)} would see nothing; leave it out")
    if text == "dask" or text.startswith(DASK):
        address = text.removeprefix(DASK) if text.startswith(DASK) else None
        if address == "":
            raise InputError(f"--executor {text} lacks the address of a scheduler: {DASK}HOST:PORT, or dask alone")
        dask: Any = import_module("apass.executors.dask")
        return cast("ExecutorScope", dask.DaskExecutor(address and f"tcp://{address}"))
    if text not in _NAMES:
        near = did_you_mean(text, _NAMES) or f"; known are {', '.join(_NAMES)} and {DASK}HOST:PORT"
        raise InputError(f"no executor {text!r}{near}")
    return nullcontext(executor_in_force(cast("Any", text)))
