"""Functions that measurements call in workers, and a program that measures."""

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Final

__all__ = ["affinity", "affinity_of_all_threads", "fail_pinned", "holding", "keep_a_thread", "note_and_sleep"]

HOLDER: Final = """
import sys
from pathlib import Path
import anyio
from apass.concurrency.measuring import MeasurementLane

async def main():
    async with MeasurementLane(Path(sys.argv[1]), None).measuring():
        print("held", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@contextmanager
def holding(lock: Path) -> Generator[Popen[str]]:
    """Run a process that holds the lane of a lock file until it is killed."""
    with Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def affinity() -> frozenset[int]:
    """Return the cores of the calling thread."""
    return frozenset(os.sched_getaffinity(0))


def affinity_of_all_threads() -> set[frozenset[int]]:
    """Return the cores of each thread of this process."""
    return {frozenset(os.sched_getaffinity(int(entry.name))) for entry in Path("/proc/self/task").iterdir()}


def fail_pinned() -> None:
    """Raise an error with the cores of the calling thread."""
    raise OSError(sorted(affinity()))


def keep_a_thread() -> frozenset[int]:
    """Start a thread that goes on, and return its cores."""
    found: list[frozenset[int]] = []
    is_started = threading.Event()

    def run() -> None:
        found.append(affinity())
        is_started.set()
        time.sleep(600)

    threading.Thread(target=run, daemon=True).start()
    is_started.wait()
    return found[0]


def note_and_sleep(note: Path) -> None:
    """Write the id of this process to a file, and run for ten minutes."""
    part = note.with_suffix(".part")
    part.write_text(str(os.getpid()))
    part.rename(note)
    time.sleep(600)
