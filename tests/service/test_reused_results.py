"""Results of an earlier process that a later one may reuse."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

PASSES = """\
import apass

AMOUNT = {amount}


def amount():
    return AMOUNT


@apass.function_pass(opt_level=0, name="Add", cacheable={cacheable})
def Add(func, mod, ctx):
    return func + amount()
"""

PROGRAM = """\
import anyio
from apass.service import Optimizer
from passes import Add


async def main():
    async with Optimizer({"add": Add}, store="jobs.db") as optimizer:
        for _ in range(2):
            job = await optimizer.submit({"f": 1}, pipeline="add")
            print(await job.result(), job.record.reused)
        job = await optimizer.submit({"f": 5}, pipeline="add", idempotency_key="once")
        print(job.id)
        await job.wait()


anyio.run(main)
"""


def run_program(folder: Path, *, amount: int, cacheable: bool) -> list[str]:
    """Run the program with a version of the passes, and return its output."""
    (folder / "passes.py").write_text(PASSES.format(amount=amount, cacheable=cacheable))
    (folder / "program.py").write_text(PROGRAM)
    # The source may have the same size and time as before, by which compiled files are recognized.
    command = [sys.executable, "-B", "program.py"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def test_results_are_reused_after_restart_if_cacheable(tmp_path: Path) -> None:
    first, edited = [run_program(tmp_path, amount=amount, cacheable=False) for amount in (1, 2)]
    assert first[:2] == ["{'f': 2} False", "{'f': 2} True"]
    assert edited[:2] == ["{'f': 3} False", "{'f': 3} True"]
    # The request is the same, although the code is not.
    assert edited[2] == first[2]
    for is_reused in (False, True):
        lines = run_program(tmp_path, amount=1, cacheable=True)
        assert lines[:2] == [f"{{'f': 2}} {is_reused}", "{'f': 2} True"]
