"""`InterpreterExecutor`: plain bodies, functions and whole passes in interpreters of this process."""

import sys
from typing import Any, Final, cast

from anyio import BrokenWorkerInterpreter, to_interpreter

from apass.core.executor import Executor
from apass.errors import ExecutorError
from apass.executors.limits import NO_LIMIT, usable_cores
from apass.executors.remote import Errand, RemoteExecutor

__all__ = ["InterpreterExecutor", "default"]


_SERVE: Final = """(
    __import__("sys").path.__setitem__(slice(None), path),
    __import__("apass.executors.worker", fromlist=["handle"]).handle(request, parcel),
)[1]"""
"""Does the work, in an interpreter. As text: it must say where modules are before one of them can be imported."""


class InterpreterExecutor(RemoteExecutor):
    """An Executor over interpreters of this process, which do not wait for each other; for Python 3.13 and later.

    They start quicker than processes, but cannot be killed: there is no limit of time, and a cancelled run waits for
    the batches at work. Many libraries written in C, numpy among them, cannot be imported in them; passes that need one
    fail with its ImportError. Nor do they know what the program's main file defines. The interpreters belong to the
    event loop, at most `workers` of them.

    Raises:
        ExecutorError: if this Python has no such interpreters.

    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers)
        if sys.version_info < (3, 13):
            version = ".".join(map(str, sys.version_info[:2]))
            raise ExecutorError(
                f"interpreters as workers need Python 3.13 or later, and this is {version}; use 'process'"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers,)

    def __repr__(self) -> str:
        return f"InterpreterExecutor(workers={self.workers})"

    def ends_late_workers(self) -> bool:
        """Return False: to end one would be to end the program."""
        return False

    async def exchange(self, request: bytes, errand: Errand) -> bytes:
        """Have an interpreter do it. The slots keep their number down: anyio would make one for each call."""
        return await self._send(request, None) or await self._send(request, errand.parcel)

    async def _send(self, request: bytes, parcel: bytes | None) -> bytes:
        names = {"path": sys.path, "request": request, "parcel": parcel}
        try:
            return cast("bytes", await to_interpreter.run_sync(eval, _SERVE, names, limiter=NO_LIMIT.here()))
        except BrokenWorkerInterpreter as error:
            raise ExecutorError(f"an interpreter failed: {error}") from error


def default() -> Executor:
    """Return what `executor="interpreter"` means."""
    return InterpreterExecutor()
