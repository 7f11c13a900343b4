"""The generated pages and diagrams of the documentation follow from the code."""

import subprocess
import sys

import pytest

from tests.helpers.repository import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_generated_pages_are_current() -> None:
    # A process of its own: other tests register passes, which the page of passes would list.
    command = [sys.executable, "-m", "tests.docs.generated", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), f"run `python -m tests.docs.generated`\n{done.stderr}"
