"""Affinity: the cores on which the threads of this process may run."""

import os
from collections.abc import Generator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from apass.errors import MeasurementError

__all__ = ["last_core", "pinned_to", "reserved"]

CAN_PIN: Final = hasattr(os, "sched_setaffinity")
"""Whether the platform can pin threads to cores."""

_THREADS: Final = Path("/proc/self/task")
"""The folder of Linux with an entry for each thread, also for the threads of C libraries."""

Masks = dict[int, frozenset[int]]
"""The cores of each thread, by the id of the thread."""


class _Reservations:
    """The cores that the threads of this process leave free.

    The affinity of threads is state of the process, so there is one object. Each change sets the mask of a thread to
    its own mask without all reserved cores. So the order in which reservations end does not matter.
    """

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._counts: Final[dict[int, int]] = {}
        self._own: Masks = {}
        """The masks of the threads without any reservation."""
        self._set: Masks = {}
        """The masks that the last change left."""

    @property
    def cores(self) -> frozenset[int]:
        """The reserved cores."""
        with self._lock:
            return frozenset(self._counts)

    def add(self, core: int, count: int) -> None:
        """Add to the number of reservations of a core."""
        with self._lock:
            self._counts[core] = self._counts.get(core, 0) + count
            if not self._counts[core]:
                del self._counts[core]
            self._apply()

    def _apply(self) -> None:
        main = os.getpid()
        inherited = {self._set.get(main)}
        # A thread that starts during the loop inherits a mask of before or after this change, so look again.
        done: set[int] = set()
        while new := _threads() - done:
            done |= new
            for thread in sorted(new):
                with suppress(ProcessLookupError):  # the thread has ended
                    self._apply_to(thread, self._own.get(main), inherited)
            inherited.add(self._set.get(main))
        if not self._counts:
            self._own, self._set = {}, {}

    def _apply_to(self, thread: int, main_mask: frozenset[int] | None, inherited: Set[frozenset[int] | None]) -> None:
        mask = frozenset(os.sched_getaffinity(thread))
        if mask != self._set.get(thread):
            # It is new, or the program has pinned it. Most new threads have the mask of the main thread.
            is_inherited = thread not in self._own and mask in inherited
            self._own[thread] = main_mask if is_inherited and main_mask is not None else mask
        # A thread that is pinned to reserved cores alone stays there.
        target = self._own[thread].difference(self._counts) or self._own[thread]
        if target != mask:
            os.sched_setaffinity(thread, target)
        self._set[thread] = target


_RESERVATIONS: Final = _Reservations()


def last_core() -> int | None:
    """Return the last core of this thread.

    Return None if there is only one, or if the platform cannot pin a thread to a core.
    """
    if not CAN_PIN:
        return None
    # Within `reserved`, the mask lacks the core.
    cores = os.sched_getaffinity(0) | _RESERVATIONS.cores
    return max(cores) if len(cores) > 1 else None


@contextmanager
def reserved(core: int | None) -> Generator[None]:
    """Keep the threads of this process off a core, and the processes that they start.

    Processes keep the affinity with which they start, also after the block. With None, this has no effect.
    """
    if core is None or not CAN_PIN:
        yield
        return
    _RESERVATIONS.add(core, 1)
    try:
        yield
    finally:
        _RESERVATIONS.add(core, -1)


@contextmanager
def pinned_to(core: int | None) -> Generator[None]:
    """Pin all threads of this process to a core, and what they start in the block.

    With None, this has no effect.

    Raises:
        MeasurementError: if this process may not use the core.

    """
    if core is None or not CAN_PIN:
        yield
        return
    only = frozenset((core,))
    before: Masks = {}
    try:
        _pin(only, before)
        yield
    finally:
        # A thread that the block has started gets the cores of the main thread.
        own = before.get(os.getpid(), frozenset())
        for thread in _threads():
            _swap(thread, before.get(thread, own), expected=only)


def _pin(cores: frozenset[int], before: Masks) -> None:
    """Pin all threads, and add their former cores to `before`."""
    try:
        while new := _threads() - before.keys():
            for thread in sorted(new):
                before[thread] = _swap(thread, cores)
    except OSError as error:
        message = f"threads cannot be pinned to core {min(cores)}: {error.strerror}; choose a core that exists"
        raise MeasurementError(message) from error


def _swap(thread: int, mask: frozenset[int], expected: frozenset[int] | None = None) -> frozenset[int]:
    """Set the mask of a thread if the expected one is in force; return the former one."""
    try:
        former = frozenset(os.sched_getaffinity(thread))
        if mask and expected in (None, former):
            os.sched_setaffinity(thread, mask)
    except ProcessLookupError:  # the thread has ended
        return frozenset()
    return former


def _threads() -> set[int]:
    """Return the ids of the threads; of the main one alone if they are unknown."""
    if not _THREADS.exists():
        return {os.getpid()}
    return {int(entry.name) for entry in _THREADS.iterdir()}
