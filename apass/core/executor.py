"""`Executor`: runs bodies, functions and passes outside the event loop's thread."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, cast, runtime_checkable

from apass.concurrency.run_locals import RunLocal
from apass.errors import PassCancelledError, did_you_mean
from apass.loading.entry_points import plugins

__all__ = [
    "DASK",
    "EXECUTOR_NAMES",
    "SENDER",
    "STOPPED",
    "Executor",
    "ExecutorChoice",
    "check_cancelled",
    "check_executor",
    "executor_in_force",
    "in_executor",
    "new_executor",
    "opens_passes",
    "send_message",
]

ItemT = TypeVar("ItemT")
R = TypeVar("R")
Args = TypeVarTuple("Args")


@runtime_checkable
class Executor(Protocol):
    """Runs work in threads, in processes or on a cluster.

    Executors are values: one object may serve many runs, modules and event loops at once.
    """

    # It is a Protocol to avoid an import cycle: passes refer to executors, and executors import passes. For the same
    # reason, passes and modules are of type Any here.

    def bodies(self, pass_: Any, mod: Any, ctx: Any) -> AbstractAsyncContextManager[Callable[..., Awaitable[Any]]]:
        """Prepare to run the bodies of a function pass on `mod`.

        The context manager returns an async function `(func, mod, ctx) -> func`.

        Raises:
            ExecutorError: if the pass or the module cannot be transferred to the workers.

        """
        ...

    async def transform(self, pass_: Any, mod: Any, ctx: Any) -> Any:
        """Return the module that the body of a module pass returns, without hooks.

        The `timeout` of the pass counts from the start of the body.

        Raises:
            ExecutorError: if the pass or the module cannot be transferred to the workers.
            PassTimeoutError: if the body took longer than the `timeout` of the pass.

        """
        ...

    async def optimize(self, pass_: Any, mod: Any, ctx: Any, *, timeout: float | None = None) -> Any:
        """Run a pass on `mod` with the options of `ctx`, and return the new module.

        Raises:
            PassTimeoutError: if it took longer than `timeout` seconds, counted from its start in a worker.

        """
        ...

    async def call(self, function: Callable[[*Args], R], *args: *Args) -> R:
        """Return `function(*args)` for a plain function."""
        ...

    async def map(self, function: Callable[[ItemT], R], items: Iterable[ItemT]) -> list[R]:
        """Return `function(item)` for each item, in order.

        The first failure cancels the rest.
        """
        ...


ExecutorChoice = Executor | str | None
"""Where plain bodies run.

It is an executor, the name of one, `"dask://HOST:PORT"` for a Dask cluster, `"inline"` for the event loop's thread, or
None for the choice of the context.
"""

DASK: Final = "dask://"
"""The beginning of the address of the scheduler of a Dask cluster."""

EXECUTOR_NAMES: Final = ("inline", "thread", "process", "interpreter", "dask")
"""The executors that can be chosen by name; all but `"inline"` are entry points of apass."""

STOPPED: Final[RunLocal[Callable[[], bool] | None]] = RunLocal("stopped", None)
"""Within an executor: returns whether the run was cancelled. Executors set it."""

SENDER: Final[RunLocal[Callable[[bytes], object] | None]] = RunLocal("sender", None)
"""Within a worker: sends a message to the caller of the current function. Executors set it."""


def check_executor(owner: str, choice: object) -> ExecutorChoice:
    """Return `choice` if it is a valid executor choice.

    Parameters:
        owner: the pass or context that the choice is for, for messages.
        choice: the value to check.

    Raises:
        TypeError: if it is neither an executor nor a string.
        ValueError: if it is an unknown name.

    """
    if isinstance(choice, str):
        # A name is checked without a look at its module, which may need another version of Python.
        names = [*EXECUTOR_NAMES, f"{DASK}HOST:PORT"]
        if choice == DASK:
            raise ValueError(f"{owner} names the executor {choice!r} without an address; write {names[-1]}, or dask")
        if choice not in EXECUTOR_NAMES and not choice.startswith(DASK):
            near = did_you_mean(choice, names, listing="known are ")
            raise ValueError(f"{owner} names the executor {choice!r}{near}")
    elif choice is not None and (isinstance(choice, type) or not isinstance(choice, Executor)):
        raise TypeError(f"{owner} takes an executor or the name of one, got {choice!r}")
    return choice


def executor_in_force(choice: ExecutorChoice) -> Executor | None:
    """Return the chosen executor, or None to run in the current thread.

    Raises:
        ExecutorError: if this Python does not support the executor.

    """
    # Work that already runs in an executor stays there: executors do not nest.
    if choice is None or choice == "inline" or in_executor():
        return None
    return _default_executor(choice) if isinstance(choice, str) else choice


def opens_passes(executor: Executor | None) -> bool:
    """Return whether the workers of an executor open passes.

    They do if they cannot use what the program opens. An executor whose bodies use the objects of the program has a
    true attribute `shares_objects`.
    """
    return executor is not None and not getattr(executor, "shares_objects", False)


def in_executor() -> bool:
    """Return whether the caller runs in an executor, such as a worker.

    The event loop of a worker has no other work, so that long calls may block it.
    """
    return STOPPED.get() is not None


def check_cancelled() -> None:
    """Raise an error if the run that the caller works for was cancelled.

    Call it periodically in long bodies, because an executor cannot interrupt a thread. A cancelled run waits for its
    threads to end, and the workers of a cluster are only notified. Outside an executor the call is very cheap.

    Raises:
        PassCancelledError: if the run was cancelled.

    """
    is_stopped = STOPPED.get()
    if is_stopped is not None and is_stopped():
        raise PassCancelledError("the run that this body works for was cancelled")


def send_message(data: bytes) -> bool:
    """Send bytes from a worker to the `on_message` of the caller of its function.

    Return whether there is one. The messages of one function must not be sent by several threads at once.
    """
    send = SENDER.get()
    if send is None:
        return False
    send(data)
    return True


def new_executor(name: str) -> Executor:
    """Return an executor by its name, whose connection belongs to the caller.

    Raises:
        ExecutorError: if this Python does not support the executor.

    """
    check_executor("a pass", name)
    # Executors import passes, so this module cannot import them.
    make = plugins("apass.executors")[name.partition("://")[0]].load()
    return cast("Executor", make(name) if name.startswith(DASK) else make())


_default_executor = cache(new_executor)
