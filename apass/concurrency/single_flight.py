"""`SingleFlight`: many who ask the same thing at once share one computation."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

import anyio

from apass.errors import BudgetExceededError

__all__ = ["SingleFlight"]

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class SingleFlight(Generic[KeyT, ValueT]):
    """Computations at work, by key: who asks for one that is at work waits for it and gets the same result.

    The first asker computes, in its own task. An error goes to all who wait, to each as a copy of its own that others'
    notes and tracebacks do not reach, and is not kept: who asks afterwards begins anew. What ends the first asker alone
    does not fail the others: if it is cancelled, or out of its budget, the next one begins the computation again.
    Results are not kept either.

    One object serves one event loop at a time.

    >>> async def slow():
    ...     calls.append("slow")
    ...     await anyio.sleep(0.01)
    ...     return 42
    >>> async def ask():
    ...     answers.append(await flights.get("question", slow))
    >>> async def main():
    ...     async with anyio.create_task_group() as group:
    ...         for _ in range(3):
    ...             group.start_soon(ask)
    >>> calls, answers, flights = [], [], SingleFlight()
    >>> anyio.run(main)
    >>> calls, answers
    (['slow'], [42, 42, 42])

    """

    __slots__ = ("_flights",)

    def __init__(self) -> None:
        self._flights: dict[KeyT, _Flight[ValueT]] = {}

    def __len__(self) -> int:
        """Return how many computations are at work."""
        return len(self._flights)

    async def get(self, key: KeyT, compute: Callable[[], Awaitable[ValueT]]) -> ValueT:
        """Return what `compute()` gives, or what it gives another asker who was at it already.

        Raises:
            Exception: what the computation raised.

        """
        while (flight := self._flights.get(key)) is not None:
            await flight.landed.wait()
            if flight.error is not None:
                raise _copied(flight.error)
            if flight.results:
                return flight.results[0]
        return await self._compute(key, compute)

    async def _compute(self, key: KeyT, compute: Callable[[], Awaitable[ValueT]]) -> ValueT:
        flight = self._flights[key] = _Flight[ValueT]()
        try:
            result = await compute()
            flight.results = (result,)
            return result
        except BudgetExceededError:
            raise
        except Exception as error:
            flight.error = _copied(error)
            raise
        finally:
            del self._flights[key]
            flight.landed.set()


def _copied(error: Exception) -> Exception:
    """Return an error that is like this one, as it is now; itself if it cannot be copied."""
    made = _made_again(error)
    if made is None:
        return error
    if hasattr(error, "__notes__"):
        made.__notes__ = [*error.__notes__]
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made.with_traceback(error.__traceback__)


def _made_again(error: Exception) -> Exception | None:
    """Return another error of the same type, arguments and attributes; None if there is no way to it."""
    for way in (_reduced, _without_init):
        try:
            made = way(error)
        except Exception:  # whatever the class does with what it is given
            continue
        if type(made) is type(error) and made.args == error.args and str(made) == str(error):
            return made
    return None


def _reduced(error: Exception) -> Any:
    """Make it as `pickle` would; not by `copy`, for which a library may have registered something else."""
    reduced: Any = error.__reduce__()
    make, arguments, *state = reduced
    made = make(*arguments)
    made.__dict__.update(state[0] if state else {})
    return made


def _without_init(error: Exception) -> Any:
    """Make it without its `__init__`, which may want something else than `args`."""
    kind: Any = type(error)
    made = kind.__new__(kind, *error.args)
    made.__dict__.update(error.__dict__)
    return made


class _Flight(Generic[ValueT]):
    """One computation; with neither result nor error once it has landed, it was given up."""

    __slots__ = ("error", "landed", "results")

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.results: tuple[ValueT, ...] = ()
        self.error: Exception | None = None
