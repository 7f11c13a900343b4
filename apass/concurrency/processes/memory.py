"""The resident memory of a process with its children, and the size of the memory."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["machine_memory", "resident_bytes"]

_PROC: Final = Path("/proc")
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
