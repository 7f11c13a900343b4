"""`examples/z3_rewrites.py`: only rewrites that hold for every input are made."""

import subprocess
import sys

import pytest

from examples.z3_rewrites import MODULE, RewriteProved
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process


REWRITTEN = {
    "halve_positive": "(x & 127) >> 1",
    "wrap_positive": "x & 127 & 15",
    "times_eight": "x << 3",
    "factor": "x * (y + 1)",
}


@pytest.mark.anyio
async def test_only_proved_rewrites_are_made() -> None:
    assert await RewriteProved(MODULE) == {**MODULE, **REWRITTEN}


@pytest.mark.slow
def test_example_runs_as_program() -> None:
    completed = subprocess.run(
        [sys.executable, "examples/z3_rewrites.py", "trio"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert completed.stdout.splitlines()[1] == "halve_positive  (x & 127) // 2  -> (x & 127) >> 1"
    assert completed.stderr == ""
