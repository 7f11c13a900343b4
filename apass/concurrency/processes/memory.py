"""The resident memory of processes and its peaks, and the size of the memory."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["PeakMeter", "machine_memory", "resident_bytes"]

_PROC: Final = Path("/proc")
_SELF: Final = _PROC / "self"
_CGROUP_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and of all processes that it started.

    Pages that they share count for each. The result is 0 if the process has ended, and on systems other than Linux.
    """
    total, processes = 0, [str(pid)]
    # The list of a process's children is made by the kernel, so that the other processes are not read.
    while processes:
        folder = _PROC / processes.pop()
        with suppress(OSError):
            total += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for thread in (folder / "task").iterdir():
                with suppress(OSError):
                    processes += (thread / "children").read_text().split()
    return total


def machine_memory() -> int | None:
    """Return the memory of this machine or its container; None if unknown."""
    sizes: list[int] = []
    with suppress(OSError, ValueError, AttributeError):
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # without a limit, the text is "max"
            sizes.append(int(path.read_text()))
    return min(sizes, default=None)


class PeakMeter:
    """Measures the memory that this process needs beyond that at the start.

    A second meter that starts before the first has ended takes the peak over.
    """

    def __init__(self) -> None:
        self._start = 0
        # Linux then counts the peak from now on.
        with suppress(OSError):
            (_SELF / "clear_refs").write_bytes(b"5")
            self._start = int((_SELF / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        self._first_peak = 0 if self._start else _highest_peak()

    def used(self) -> int:
        """Return the bytes at the peak beyond those at the start.

        It is 0 if unknown: on other systems than Linux, because the process has needed more before.
        """
        if not self._start:
            return _highest_peak() - self._first_peak
        # A sandbox may leave the line out, and a job must not fail by its measurement.
        with suppress(OSError, IndexError):
            _, _, peak = (_SELF / "status").read_bytes().partition(b"VmHWM:")
            return max(0, 1024 * int(peak.split(maxsplit=1)[0]) - self._start)
        return 0


def _highest_peak() -> int:
    """Return the peak of this process since its start; 0 if unknown."""
    try:
        # Windows does not have it.
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
