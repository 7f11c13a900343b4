"""What the examples say when they are given what they cannot use: one line, and no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def complaint(*arguments: str) -> tuple[int, str]:
    """Return the exit status of an example and the last line that it wrote to standard error."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("z3_rewrites.py", "curio"), "argument backend: invalid choice: 'curio'"),
        (("http_cost_model.py", "--faults", "2"), "argument --faults: invalid part value: '2'"),
        (("queue_of_models.py", "--limit", "0"), "argument --limit: invalid positive value: '0'"),
        (("measure_candidates.py", "--models", "-2"), "argument --models: invalid positive value: '-2'"),
    ],
)
def test_a_wrong_argument_is_named(arguments: tuple[str, ...], said: str) -> None:
    status, line = complaint(f"examples/{arguments[0]}", *arguments[1:])
    assert (status, said in line) == (2, True), line


def test_a_file_that_is_no_journal_is_left_as_it_is(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes")
    status, line = complaint("examples/queue_of_models.py", "--models", "2", "--journal", str(notes))
    assert (status, line) == (1, f"{str(notes)!r} is no journal, and is left as it is; give the path of another file")
    assert notes.read_text() == "my notes"
