"""Runs a command with a time limit, and writes its status, time and memory.

    python -I -S launcher.py LIMIT REPORT COMMAND...

The launcher is a process of its own. Linux counts the memory of a parent as that of its new child, and this parent is
small. The peak is the peak of the command or of one of its own children, whichever is larger.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from time import perf_counter


def main(limit: float, report: str, command: list[str]) -> None:
    """Run the command."""
    start = perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    timed_out = threading.Event()

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def end() -> None:
        timed_out.set()
        kill()

    def end_with_parent() -> None:
        # At exit, Python would wait a second for the lock of `sys.stdin.buffer`.
        os.read(0, 1)
        kill()

    threading.Thread(target=end_with_parent, daemon=True).start()
    timer = threading.Timer(limit, end)
    timer.daemon = True
    timer.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
        # Worker processes of the command may still run.
        kill()
    process.returncode = os.waitstatus_to_exitcode(status)
    # macOS counts bytes, Linux kilobytes.
    scale = 1 if sys.platform == "darwin" else 1024
    values = {
        "status": process.returncode,
        "seconds": perf_counter() - start,
        "peak": usage.ru_maxrss * scale,
        "timed_out": timed_out.is_set(),
    }
    with open(report, "w", encoding="utf-8") as file:  # noqa: PTH123 (pathlib takes most of the start-up time)
        json.dump(values, file)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2], sys.argv[3:])
