"""A program that kills runs with a journal at random moments and restarts them.

`python -m tests.helpers.killed_runs FOLDER BACKEND KILLS SEED` starts each run with `fork`, so that a start takes no
time, kills it with SIGKILL, and lets the last one end. Each run appends lines to FOLDER/log: `begin NAME` when a module
starts, and `made NAME` or `found NAME` when its result is computed or read from the journal. The last run writes all
results to FOLDER/results.json.
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
    """Return the input modules of each run."""
    random = Random(0)
    return {str(index): {"f": index, "text": "x" * random.randrange(3000)} for index in range(MODULES)}


def optimized(mod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected result for a module."""
    return {"f": -mod["f"], "text": mod["text"].upper()}


def begin_log(path: Path) -> Callable[[str], None]:
    """Return a function that appends a line; a kill cannot split a line."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def append(line: str) -> None:
        os.write(log, f"{line}\n".encode())

    return append


async def run(folder: Path, beats: int) -> None:
    """Optimize all modules.

    Write a byte to `beats` at the start of the run and of each module.
    """
    os.write(beats, b"!")
    log = begin_log(folder / "log")

    @apass.module_pass(opt_level=0)
    async def Work(mod: dict[str, Any], ctx: apass.PassContext) -> dict[str, Any]:
        log(f"begin {mod['f']}")
        os.write(beats, b"!")
        await anyio.sleep(mod["f"] % 7 / 1000)
        return optimized(mod)

    results: dict[str, Any] = {}
    stream = apass.optimize_stream(modules(), apass.Sequential([Work]), limit=LIMIT, journal=folder / "run.journal")
    async with stream as outcomes:
        async for outcome in outcomes:
            log(f"{'found' if outcome.resumed else 'made'} {outcome.name}")
            results[outcome.name] = outcome.unwrap()
    (folder / "results.json").write_text(json.dumps(results))


def start(folder: Path, backend: str, *, to_be_killed: bool) -> tuple[int, int]:
    """Fork a run; return its process id and a descriptor to read its beats.

    If it is to be killed, the run waits for the signal at its end.
    """
    beats_reader, beats = os.pipe()
    child = os.fork()
    if child:
        os.close(beats)
        return child, beats_reader
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
    """Kill `kills` runs and let one more end; print the kills and its exit status."""
    random = Random(seed)
    anyio.run(anyio.sleep, 0, backend=backend)  # imports the event loop before the forks
    killed = 0
    for _ in range(kills):
        child, beats_reader = start(folder, backend, to_be_killed=True)
        for _ in range(random.randrange(8)):
            os.read(beats_reader, 1)
        time.sleep(random.expovariate(1 / 0.002))
        os.kill(child, signal.SIGKILL)
        os.close(beats_reader)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
    child, beats_reader = start(folder, backend, to_be_killed=False)
    while os.read(beats_reader, 1000):
        pass
    _, status = os.waitpid(child, 0)
    print(killed, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
