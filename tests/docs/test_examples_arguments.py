"""Errors of the examples for invalid arguments: one line without a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process


def run_example(*arguments: str) -> tuple[int, str]:
    """Return the exit status of an example and the last line of its standard error."""
    command = [sys.executable, *arguments]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in completed.stderr
    return completed.returncode, completed.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("z3_rewrites.py", "curio"), "argument backend: invalid choice: 'curio'"),
        (("http_cost_model.py", "--faults", "2"), "argument --faults: invalid fraction value: '2'"),
        (("queue_of_models.py", "--limit", "0"), "argument --limit: invalid positive value: '0'"),
        (("measure_candidates.py", "--models", "-2"), "argument --models: invalid positive value: '-2'"),
    ],
)
def test_invalid_argument_is_named(arguments: tuple[str, ...], message: str) -> None:
    status, line = run_example(f"examples/{arguments[0]}", *arguments[1:])
    assert (status, message in line) == (2, True), line


@pytest.mark.slow
def test_file_that_is_not_journal_is_unchanged(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    status, line = run_example("examples/queue_of_models.py", "--models", "2", "--journal", str(notes))
    assert (status, line) == (1, f"{str(notes)!r} is not a journal and was not changed; use another path")
    assert notes.read_text() == "my notes"
