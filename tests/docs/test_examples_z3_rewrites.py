"""The example that asks z3: what it rewrites is right for every input, and what is wrong for one is left alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.z3_rewrites import MODULE, RewriteProved

ROOT = Path(__file__).parent.parent.parent

REWRITTEN = {
    "halve_positive": "(x & 127) >> 1",
    "wrap_positive": "x & 127 & 15",
    "times_eight": "x << 3",
    "factor": "x * (y + 1)",
}


@pytest.mark.anyio
async def test_what_z3_proves_is_rewritten_and_nothing_else() -> None:
    assert await RewriteProved(MODULE) == {**MODULE, **REWRITTEN}


def test_the_example_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "examples/z3_rewrites.py", "trio"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1] == "halve_positive  (x & 127) // 2  -> (x & 127) >> 1"
    assert done.stderr == ""
