"""`examples/queue_of_models.py`: answers, back-pressure and the journal."""

import re
from collections import Counter
from pathlib import Path

import pytest

from examples.queue_of_models import main


@pytest.mark.slow
def test_every_client_gets_all_answers_within_limit(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--models", "14", "--limit", "3", "--backend", backend])
    written, errors = capfd.readouterr()
    lines = written.splitlines()
    assert (status, errors) == (0, "")
    # How many wait together depends on the speed of the machine; the limit does not.
    assert re.fullmatch("14 models, at most [123] in progress at once, 0 failed", lines[-1])
    assert Counter(line.split()[0] for line in lines[:-1]) == {"ada": 5, "bob": 5, "cy": 4}
    assert {tuple(line.split()[2:]) for line in lines if "mlp 1:" in line} == {
        ("mlp", "1:", "10", "calls", "before,", "10", "after")
    }


@pytest.mark.slow
def test_journal_answers_finished_models_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--models", "6", "--journal", str(tmp_path / "queue.journal")]
    assert [main(arguments), main([*arguments, "--backend", "trio"])] == [0, 0]
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 14
    assert [line.endswith(", from the journal") for line in lines if " gets " in line] == [False] * 6 + [True] * 6
    assert {line.removesuffix(", from the journal") for line in lines[7:]} == set(lines[:7])
