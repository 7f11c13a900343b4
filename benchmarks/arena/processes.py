"""Runs a module of the arena in a process, with a time limit."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from anyio import to_thread

__all__ = ["Ended", "run_module"]

ROOT: Final = Path(__file__).parents[2]
LAUNCHER: Final = Path(__file__).parent / "launcher.py"

LONGEST_ERROR: Final = 200
"""Maximum number of characters of an error."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended."""

    values: dict[str, Any]
    """What the module has reported; empty if it has crashed."""
    seconds: float
    """Duration of the process, with its imports."""
    peak: int
    """Peak memory in bytes."""
    timed_out: bool
    """Whether it was killed at the time limit."""
    error: str
    """Why it failed; empty if it did not."""


async def run_module(module: str, arguments: Sequence[str], time_limit: float) -> Ended:
    """Run `python -m MODULE REPORT ARGUMENTS`, and return its report.

    The module writes the report as JSON to the file `REPORT`. Its entry `error` is the reason of a failure.
    """
    return await to_thread.run_sync(_run, module, arguments, time_limit)


def _run(module: str, arguments: Sequence[str], time_limit: float) -> Ended:
    with TemporaryDirectory(prefix="arena-") as name:
        ended, report = Path(name, "ended.json"), Path(name, "report.json")
        command = [sys.executable, "-I", "-S", str(LAUNCHER), str(time_limit), str(ended)]
        command += [sys.executable, "-m", module, str(report), *arguments]
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        # The launcher ends the command when this pipe is closed, hence also if this process is killed.
        with subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stderr is not None
            output = process.stderr.read().decode(errors="replace")
            process.wait()
        if not ended.exists():
            return Ended({}, 0.0, 0, timed_out=False, error=f"the launcher failed: {_last_line(output)}")
        outcome: dict[str, Any] = json.loads(ended.read_text())
        values: dict[str, Any] = json.loads(report.read_text()) if report.exists() else {}
    error = ""
    if outcome["timed_out"]:
        error = f"ended after {time_limit:g} s"
    elif outcome["status"]:
        error = values.pop("error", "") or _cause(outcome["status"], output)
    return Ended(values, outcome["seconds"], outcome["peak"], outcome["timed_out"], error[:LONGEST_ERROR])


def _cause(status: int, output: str) -> str:
    """Return the signal that ended the process, or the last line that it has printed."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return _last_line(output) or f"exit status {status}"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""
