"""`Executor`: what runs plain function bodies, functions and whole passes elsewhere than in the event loop's thread."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, Protocol, TypeVar, TypeVarTuple, cast, runtime_checkable

from apass.errors import PassCancelledError, did_you_mean

__all__ = ["STOPPED", "Executor", "ExecutorChoice", "check_cancelled", "check_executor", "executor_in_force"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")
Args = TypeVarTuple("Args")


@runtime_checkable
class Executor(Protocol):
    """What runs work elsewhere. A Protocol, because passes name one, and executors know of passes.

    Executors are values: one object may serve many runs, modules and event loops at once.
    """

    def bodies(self, pass_: Any, mod: Any, ctx: Any) -> AbstractAsyncContextManager[Callable[..., Awaitable[Any]]]:
        """Make ready for the bodies of a function pass on `mod`; gives an async `(func, mod, ctx) -> func`.

        Raises:
            ExecutorError: if the pass or the module cannot go where the executor works.

        """
        ...

    async def optimize(self, pass_: Any, mod: Any, ctx: Any) -> Any:
        """Run a whole pass on `mod`, in a context with the options of `ctx`, and return the new module."""
        ...

    async def call(self, function: Callable[[*Args], R], *args: *Args) -> R:
        """Return `function(*args)`, a plain function."""
        ...

    async def map(self, function: Callable[[ItemT], R], items: Iterable[ItemT]) -> list[R]:
        """Return `function(item)` for each of `items`, in order; the first failure ends the others."""
        ...


ExecutorChoice = Executor | Literal["inline", "thread", "process", "interpreter"] | None
"""Where plain bodies run: an executor, the name of one, in the loop's thread (`"inline"`), or as the context says."""

_OWN: Final[Mapping[str, str]] = {
    "thread": "apass.executors.threads",
    "process": "apass.executors.processes",
    "interpreter": "apass.executors.interpreters",
}
"""The modules that have executors which go by a name, each made by `default()`."""

STOPPED: ContextVar[Callable[[], bool] | None] = ContextVar("apass_stopped", default=None)
"""Within an executor: tells whether the run that the work is for was cancelled; for executors."""


def check_executor(owner: str, given: object) -> ExecutorChoice:
    """Return `given` if it can be an executor; TypeError or ValueError, saying what `owner` was given, if not."""
    if isinstance(given, str):
        names = ("inline", *_OWN)
        if given not in names:
            near = did_you_mean(given, names, listing="known are ")
            raise ValueError(f"{owner} names the executor {given!r}{near}")
    elif given is not None and (isinstance(given, type) or not isinstance(given, Executor)):
        raise TypeError(f"{owner} takes an executor or the name of one, not {given!r}")
    return cast("ExecutorChoice", given)


def executor_in_force(choice: ExecutorChoice) -> Executor | None:
    """Return the executor that is chosen; None for none, and within an executor: what runs elsewhere stays there.

    Raises:
        ExecutorError: if this Python cannot run it.

    """
    if choice is None or choice == "inline" or STOPPED.get() is not None:
        return None
    return _own(choice) if isinstance(choice, str) else choice


def check_cancelled() -> None:
    """Return if the run that the caller works for goes on; for long bodies, which an executor cannot interrupt.

    A cancelled run waits for its threads, and a cluster's workers are only told: a body that asks every now and then
    ends early. Elsewhere it costs next to nothing.

    Raises:
        PassCancelledError: if the run was cancelled.

    """
    is_stopped = STOPPED.get()
    if is_stopped is not None and is_stopped():
        raise PassCancelledError("the run that this body works for was cancelled")


@cache
def _own(name: str) -> Executor:
    check_executor("a pass", name)
    return cast("Executor", import_module(_OWN[name]).default())
