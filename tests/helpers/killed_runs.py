"""One run over many modules with a journal, killed at random moments and started again; a program of its own.

python -m tests.helpers.killed_runs FOLDER BACKEND KILLS SEED: forks each run off, so that starting one takes no time, kills it
with SIGKILL, and at last lets one end. Each run writes to FOLDER/log, one line at a time, what it begins (`begin NAME`)
and what was given out to it (`made NAME`, `found NAME`); the last one writes all results to FOLDER/results.json.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import anyio

import apass

MODULES = 200
LIMIT = 4


def modules() -> dict[str, dict[str, Any]]:
    """Return what each run is given."""
    random = Random(0)
    return {str(index): {"f": index, "text": "x" * random.randrange(3000)} for index in range(MODULES)}


def optimized(mod: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the pass makes of a module."""
    return {"f": -mod["f"], "text": mod["text"].upper()}


def begin_log(path: Path) -> Callable[[str], None]:
    """Return what adds a line to the file, whole whenever the process is killed."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def say(line: str) -> None:
        os.write(log, f"{line}\n".encode())

    return say


async def run(folder: Path, beats: int) -> None:
    """Optimize all modules; write a byte to `beats` at the start of the run and of each module."""
    os.write(beats, b"!")
    say = begin_log(folder / "log")

    @apass.module_pass(opt_level=0)
    async def Work(mod: dict[str, Any], ctx: apass.PassContext) -> dict[str, Any]:
        say(f"begin {mod['f']}")
        os.write(beats, b"!")
        await anyio.sleep(mod["f"] % 7 / 1000)
        return optimized(mod)

    results: dict[str, Any] = {}
    stream = apass.optimize_stream(modules(), apass.Sequential([Work]), limit=LIMIT, journal=folder / "run.journal")
    async with stream as outcomes:
        async for outcome in outcomes:
            say(f"{'found' if outcome.resumed else 'made'} {outcome.name}")
            results[outcome.name] = outcome.unwrap()
    (folder / "results.json").write_text(json.dumps(results))


def start(folder: Path, backend: str, *, to_be_killed: bool) -> tuple[int, int]:
    """Fork a run off; return its process id, and where to read its beats.

    One that is to be killed waits for that at its end, however late it comes.
    """
    heard, beats = os.pipe()
    child = os.fork()
    if child:
        os.close(beats)
        return child, heard
    try:
        anyio.run(run, folder, beats, backend=backend)
        os.close(beats)
        while to_be_killed:
            signal.pause()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def main(folder: Path, backend: str, kills: int, seed: int) -> None:
    """Kill so many runs, and let one more end; print how many were killed, and the status of the last."""
    random = Random(seed)
    anyio.run(anyio.sleep, 0, backend=backend)  # what it imports is there in each fork
    killed = 0
    for _ in range(kills):
        child, heard = start(folder, backend, to_be_killed=True)
        for _ in range(random.randrange(8)):
            os.read(heard, 1)
        time.sleep(random.expovariate(1 / 0.002))
        os.kill(child, signal.SIGKILL)
        os.close(heard)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
    child, heard = start(folder, backend, to_be_killed=False)
    while os.read(heard, 1000):
        pass
    _, status = os.waitpid(child, 0)
    print(killed, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
