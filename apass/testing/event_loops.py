"""Event loops for tests: an idle clock, and an order of tasks that repeats.

Both need the libraries themselves: anyio has neither clocks nor an order of tasks.
"""

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from math import inf, isinf, nextafter
from random import Random
from selectors import DefaultSelector, SelectorKey
from typing import Any, Final
from unittest.mock import patch

import anyio

from apass.concurrency.interleaving import Schedule, seeded
from apass.core.run_settings import RunSettings
from apass.errors import MissingExtraError

__all__ = ["SEED_VARIABLE", "chosen_seed", "idle_clock", "interleave", "scheduled"]

SEED_VARIABLE: Final = "APASS_SEED"
"""The environment variable with the seed of `interleave`."""

DAY: Final = 24 * 3600
"""Longest timeout that asyncio passes to `select`, also if the next timer is set for a later time."""


@contextmanager
def idle_clock(backend: str = "asyncio") -> Generator[tuple[str, dict[str, Any]]]:
    """Provide an event loop whose clock advances only while all tasks wait.

    When every task waits, the clock jumps to the earliest wake-up time. So a test of an hour's timeout takes no time,
    and the load of the machine does not affect which of two timeouts ends first. The deadlines of apass use the same
    clock within the block. Work in threads and processes takes no time on this clock, so do not await it within a time
    limit.

    In async tests, request the fixture `idle_clock` of the pytest plugin.

    Parameters:
        backend: `"asyncio"` or `"trio"`.

    Returns:
        The backend and its options, for `anyio.run` or a fixture `anyio_backend`.

    >>> async def hour():
    ...     start = anyio.current_time()
    ...     await anyio.sleep(3600)
    ...     return anyio.current_time() - start
    >>> with idle_clock() as (backend, options):
    ...     anyio.run(hour, backend=backend, backend_options=options)
    3600.0

    """
    if backend not in ("asyncio", "trio"):
        raise ValueError(f"backend must be 'asyncio' or 'trio', got {backend!r}")
    options = {"loop_factory": _IdleLoop} if backend == "asyncio" else {"clock": _trio_clock()}
    with patch("apass.core.deadline.monotonic", anyio.current_time):
        yield backend, options


class _IdleLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to its next wake-up time."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the time of the idle clock."""
        return self.now

    def never_wakes(self) -> bool:
        """Return whether the next timer, if there is one, is set for the end of time."""
        timers: list[asyncio.TimerHandle] = vars(self)["_scheduled"]
        return not timers or isinf(timers[0].when())


class _Selector(DefaultSelector):
    """Selector that advances the clock of its loop."""

    def __init__(self, loop: _IdleLoop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the ready keys; if there are none, advance the clock by `timeout`.

        If no timer is set, wait for input.
        """
        if timeout is None or (timeout >= DAY and self.loop.never_wakes()):
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.loop.now += timeout
            # asyncio runs timers that are earlier than the time plus a nanosecond, which a float of many days loses.
            if self.loop.now + 1e-9 == self.loop.now:
                self.loop.now = nextafter(self.loop.now, inf)
        return ready


def _trio_clock() -> object:
    try:
        from trio.testing import MockClock
    except ImportError as error:
        raise MissingExtraError(f"the event loop 'trio' needs trio ({error}): pip install 'apass[trio]'") from error
    return MockClock(autojump_threshold=0)


@contextmanager
def interleave(seed: int | None = None) -> Generator[int]:
    """Run the bodies of function passes in a random order, which a seed repeats.

    It applies to each `PassContext` that is created within the block. One body makes a step at a time, in an order that
    is drawn from the seed. Passes on other modules pause at random. A pass is correct if its result is the same for
    every seed. Bodies that wait for sockets, threads or timers may still run in another order.
    An instrument `scheduled(seed)` does the same for the bodies of one context.

    If the block fails, a note on the error gives the seed.

    Parameters:
        seed: the seed; None is a random one. The environment variable `APASS_SEED` takes precedence.

    Returns:
        The seed.

    >>> import apass
    >>> Double = apass.function_pass(lambda func, mod, ctx: func * 2, opt_level=0, name="Double")
    >>> with interleave(seed=7):
    ...     apass.testing.run_pass(Double, {"f": 1, "g": 2})
    {'f': 2, 'g': 4}

    """
    chosen = chosen_seed(seed)
    with seeded(chosen), _repeatable_trio(chosen):
        try:
            yield chosen
        except BaseException as error:
            error.add_note(f"bodies were interleaved with seed {chosen}; {SEED_VARIABLE}={chosen} repeats their order")
            raise


def chosen_seed(seed: int | None = None) -> int:
    """Return the seed of the environment, or else `seed`, or else a random one.

    Raises:
        ValueError: if the seed of the environment is not an integer.

    """
    text = os.environ.get(SEED_VARIABLE)
    if not text:
        return Random().randrange(10**6) if seed is None else seed
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {SEED_VARIABLE} must be an integer, got {text!r}") from None


@contextmanager
def _repeatable_trio(seed: int) -> Generator[None]:
    """Let trio resume the tasks of an iteration in an order that depends on the seed.

    Trio shuffles them, so that no program relies on their order. It has no public switch; Hypothesis sets these two
    names as well, through the plug-in that trio offers it.
    """
    loop: Any = sys.modules.get("trio._core._run")
    if loop is None or not isinstance(getattr(loop, "_r", None), Random):
        yield
        return
    state = loop._r.getstate()
    loop._r.seed(seed)
    with patch.object(loop, "_ALLOW_DETERMINISTIC_SCHEDULING", True):
        try:
            yield
        finally:
            loop._r.setstate(state)


def scheduled(seed: int | Schedule) -> RunSettings:
    """Return an instrument that sets the order of the steps of concurrent bodies.

    A context with it runs one body for a step at a time, in an order that is drawn from the seed, as `interleave` does
    for all contexts. The same seed repeats the order.

    Parameters:
        seed: the seed, or a `Schedule`, as `stress` finds it, which interleaves some functions only.

    Raises:
        TypeError: if it is anything else.

    >>> import apass
    >>> context = apass.PassContext(instruments=[scheduled(7)])
    >>> context.run_settings.schedule
    Schedule(seed=7, functions=None)

    """
    if isinstance(seed, bool) or not isinstance(seed, int | Schedule):
        raise TypeError(f"seed must be an int or a Schedule, got {seed!r}")
    return RunSettings(schedule=seed if isinstance(seed, Schedule) else Schedule(seed))
