"""A program that adds jobs until it is killed.

The command is `python -m tests.service.adding_jobs URL BACKEND SEED [TIMEOUT]`. It prints `open`, and then `added ID`
or `done ID` as soon as the store has confirmed that. It ends with the status 3 if another server has taken the store
over. With the argument `fork`, it only opens the store and forks a child process that stays alive; it prints `open`
and the process id of the child.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import NoReturn

import anyio

from apass.service import JobsUnavailableError, SqlJobStore, StoreTakenError
from apass.service.job_store import Blob
from apass.service.jobs import new_job_id
from tests.helpers.repository import ROOT
from tests.service.stored_jobs import done, new_job, running

__all__ = ["adding_jobs", "result_of"]

TASKS = 20


@contextmanager
def adding_jobs(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run the program, which has the store in the block, and kill it at the end."""
    command = [sys.executable, "-m", "tests.service.adding_jobs", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()
            process.communicate()


def write(line: str) -> None:
    """Write a line, which a kill cannot split."""
    os.write(1, f"{line}\n".encode())


def result_of(model: bytes) -> bytes:
    """Return the result for a model."""
    return model[::-1] + b"!"


async def add_job(store: SqlJobStore, random: Random) -> None:
    """Add a job, and let it end or not."""
    # Some models have several chunks.
    data = random.randbytes(1_500_000 if random.random() < 0.05 else random.randrange(3000))
    model = Blob.of(data)
    job = await store.add(new_job(model, id=new_job_id()), model)
    write(f"added {job.id}")
    if random.random() < 0.5:
        assert await store.update([running(job)]) == [True]
        assert await store.update([done(job, Blob.of(result_of(data)))]) == [True]
        write(f"done {job.id}")


async def add_jobs(store: SqlJobStore, random: Random) -> NoReturn:
    """Add jobs, and let half of them end."""
    while True:
        try:
            await add_job(store, random)
        except StoreTakenError:
            raise
        except JobsUnavailableError as error:
            # The database has ended the connection.
            sys.stderr.write(f"{error}\n")


async def main(url: str, seed: int, timeout: float) -> None:
    """Open the store, and add jobs."""
    store = SqlJobStore(url, timeout=timeout)
    await store.open()
    write("open")
    try:
        async with anyio.create_task_group() as group:
            for number in range(TASKS):
                group.start_soon(add_jobs, store, Random(f"{seed} {number}"))
    except* StoreTakenError:
        sys.exit(3)


async def fork(url: str) -> None:
    """Open the store, and fork a process."""
    await SqlJobStore(url).open()
    write("open")
    if not os.fork():
        # By now, it has closed the locks of its parent.
        write(f"{os.getpid()}")
    signal.pause()


if __name__ == "__main__":
    if sys.argv[2:] == ["fork"]:
        anyio.run(fork, sys.argv[1])
    else:
        anyio.run(main, sys.argv[1], int(sys.argv[3]), float([*sys.argv, "10"][4]), backend=sys.argv[2])
