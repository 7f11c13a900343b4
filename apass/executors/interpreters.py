"""`InterpreterExecutor`: runs bodies, functions and passes in subinterpreters."""

import sys
from typing import Any, Final, cast

from anyio import BrokenWorkerInterpreter, to_interpreter

from apass.concurrency.limits import NO_LIMIT, usable_cores
from apass.concurrency.processes.pool import imported_in_workers
from apass.core.executor import Executor
from apass.errors import ExecutorError
from apass.executors.remote import Batch, RemoteExecutor

__all__ = ["InterpreterExecutor", "default"]


_SERVE: Final = """(
    __import__("sys").path.__setitem__(slice(None), path),
    [__import__(module) for module in modules],
    __import__("apass.executors.worker", fromlist=["handle"]).handle(request, message),
)[-1]"""
"""Expression that handles a request in an interpreter.

It is a string because `sys.path` must be set before a module can be imported there.
"""


class InterpreterExecutor(RemoteExecutor):
    """An Executor over subinterpreters, each with its own GIL (Python 3.13 and later).

    Interpreters start faster than processes, but have these limits:

    - They cannot be killed. There is no time limit, and a cancelled run waits for the running batches.
    - Many C extensions, numpy among them, cannot be imported. A pass that needs one fails with an ImportError.
    - Definitions in the program's main file are not available.

    At most `workers` interpreters exist. They belong to the event loop.

    Raises:
        ExecutorError: if this Python version does not support them.

    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers)
        if sys.version_info < (3, 13):
            version = ".".join(map(str, sys.version_info[:2]))
            raise ExecutorError(
                f"the interpreter executor requires Python 3.13 or later, this is {version}; use executor='process'"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers,)

    def __repr__(self) -> str:
        return f"InterpreterExecutor(workers={self.workers})"

    def ends_late_workers(self) -> bool:
        """Return False: an interpreter can only exit together with the whole process."""
        return False

    async def exchange(self, request: bytes, batch: Batch) -> bytes:
        """Handle a request in an interpreter.

        The executor's slots limit the number of interpreters. anyio's pool itself is unlimited here.
        """
        return await self._send(request, None) or await self._send(request, batch.message)

    async def _send(self, request: bytes, message: bytes | None) -> bytes:
        names = {"path": sys.path, "modules": imported_in_workers(), "request": request, "message": message}
        try:
            return cast("bytes", await to_interpreter.run_sync(eval, _SERVE, names, limiter=NO_LIMIT.here()))
        except BrokenWorkerInterpreter as error:
            raise ExecutorError(f"an interpreter failed: {error}") from error


def default() -> Executor:
    """Return the default executor for `executor="interpreter"`."""
    return InterpreterExecutor()
