"""The machine of a measurement: a calibration, the version of apass and of Python."""

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final

import apass

REPEATS: Final = 25
"""Runs of each fixed workload. Each is shorter than a time slice of the operating system."""
PAUSE: Final = 0.01
"""Seconds between two runs: a process that has slept is preferred to busy ones."""


def interpret() -> int:
    """Run a fixed workload of pure Python: calls, integers, dicts and tuples."""
    counts: dict[int, int] = {}

    def step(value: int) -> int:
        return (value * 1103515245 + 12345) % 2147483648

    value = 1
    for _ in range(10_000):
        value = step(value)
        counts[value % 997] = counts.get(value % 997, 0) + 1
    ordered = sorted((count, key) for key, count in counts.items())
    return sum(count * key for count, key in ordered)


def copy_and_hash() -> str:
    """Run a fixed workload of the memory and the processor without the interpreter."""
    data = bytes(range(256)) * (2**20 // 256)
    for _ in range(4):
        data = data[1:] + data[:1]
    return hashlib.sha256(data).hexdigest()


def calibrate() -> dict[str, float]:
    """Return the seconds of the fixed workloads, each the smallest of several runs.

    A smallest time is what the machine can do: other work only adds to it.
    """
    return {"python": _fastest(interpret), "memory": _fastest(copy_and_hash)}


def _fastest(job: Callable[[], object]) -> float:
    durations: list[float] = []
    for _ in range(REPEATS):
        sleep(PAUSE)
        start = perf_counter()
        job()
        durations.append(perf_counter() - start)
    return min(durations)


def describe() -> dict[str, Any]:
    """Return what is measured and where, without the calibration."""
    folder = Path(apass.__file__).parent
    # Of the last commit that changed the package: a commit of the documentation measures the same code.
    revision, _, revision_date = _git(folder, "log", "-1", "--format=%h %cI", "--", ".").partition(" ")
    changed = _git(folder, "status", "--porcelain", "--", ".")
    return {
        "apass": version("apass"),
        "revision": f"{revision}{'+changes' if changed else ''}",
        "revision_date": revision_date,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints; nothing outside of a repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
