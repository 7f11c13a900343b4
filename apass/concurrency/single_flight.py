"""`SingleFlight`: concurrent requests with the same key share one computation."""

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

import anyio

from apass.errors import BudgetExceededError

__all__ = ["SingleFlight"]

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class SingleFlight(Generic[KeyT, ValueT]):
    """The running computations, by key.

    The first caller with a key computes, in its own task. Callers that use the same key meanwhile wait and get the same
    result. Results and errors are not cached: the next caller after the end computes again.

    If the computation raises an error, every caller gets a copy of it, with its own notes and traceback. If the
    computing caller is cancelled or exceeds its deadline, the others are not affected: the next one computes.

    One object serves one event loop at a time.

    >>> async def slow():
    ...     calls.append("slow")
    ...     await anyio.sleep(0.01)
    ...     return 42
    >>> async def request():
    ...     results.append(await flights.get("key", slow))
    >>> async def main():
    ...     async with anyio.create_task_group() as group:
    ...         for _ in range(3):
    ...             group.start_soon(request)
    >>> calls, results, flights = [], [], SingleFlight()
    >>> anyio.run(main)
    >>> calls, results
    (['slow'], [42, 42, 42])

    """

    __slots__ = ("_flights",)

    def __init__(self) -> None:
        self._flights: dict[KeyT, _Flight[ValueT]] = {}

    def __len__(self) -> int:
        """Return the number of running computations."""
        return len(self._flights)

    async def get(self, key: KeyT, compute: Callable[[], Awaitable[ValueT]]) -> ValueT:
        """Return the result of `compute()` or of a running computation with this key.

        Raises:
            Exception: any error that the computation raised.

        """
        # If the computing caller gave up, there is neither a result nor an error: look again, or compute.
        while (flight := self._flights.get(key)) is not None:
            await flight.landed.wait()
            if flight.error is not None:
                raise _copied(flight.error)
            if flight.results:
                return flight.results[0]
        return await self._compute(key, compute)

    async def _compute(self, key: KeyT, compute: Callable[[], Awaitable[ValueT]]) -> ValueT:
        flight: _Flight[ValueT] = _Flight()
        self._flights[key] = flight
        try:
            result = await compute()
            flight.results = (result,)
            return result
        except BudgetExceededError:
            raise  # the deadline is this caller's own, so the error does not concern the others
        except Exception as error:
            # Copied here as well: the original gets further notes as it propagates.
            flight.error = _copied(error)
            raise
        finally:
            del self._flights[key]
            flight.landed.set()


def _copied(error: Exception) -> Exception:
    """Return a copy of the error with its notes and traceback, or the error itself."""
    copy = _new_copy(error)
    if copy is None:
        return error
    if hasattr(error, "__notes__"):
        copy.__notes__ = [*error.__notes__]
    copy.__cause__, copy.__context__ = error.__cause__, error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


def _new_copy(error: Exception) -> Exception | None:
    """Return an error of the same type, arguments and attributes, or None."""
    for method in (_copy_by_reduce, _copy_without_init):
        try:
            copy = method(error)
        except Exception:  # user-defined classes may raise any error here
            continue
        if type(copy) is type(error) and copy.args == error.args and str(copy) == str(error):
            return copy
    return None


def _copy_by_reduce(error: Exception) -> Any:
    """Copy an error as `pickle` does."""
    # Not `copy.copy`: a library may have registered another function for it.
    reduced: Any = error.__reduce__()
    make, arguments, *state = reduced
    copy = make(*arguments)
    copy.__dict__.update(state[0] if state else {})
    return copy


def _copy_without_init(error: Exception) -> Any:
    """Copy an error whose `__init__` takes other arguments than `args`."""
    kind: Any = type(error)
    copy = kind.__new__(kind, *error.args)
    copy.__dict__.update(error.__dict__)
    return copy


class _Flight(Generic[ValueT]):
    """One computation; abandoned if it has landed with neither result nor error."""

    __slots__ = ("error", "landed", "results")

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.results: tuple[ValueT, ...] = ()
        """The result, in a tuple because it may be None."""
        self.error: Exception | None = None
