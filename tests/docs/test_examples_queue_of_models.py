"""The example with a queue: every client gets its answers, few models are inside, and a journal answers again."""

from collections import Counter
from pathlib import Path

import pytest

from examples.queue_of_models import main


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_client_gets_every_answer_with_few_models_inside(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--models", "14", "--limit", "3", "--backend", backend])
    written, errors = capfd.readouterr()
    lines = written.splitlines()
    assert (status, errors) == (0, "")
    assert lines[-1] == "14 models, at most 3 inside at once, 0 failed"
    assert Counter(line.split()[0] for line in lines[:-1]) == {"ada": 5, "bob": 5, "cy": 4}
    assert {tuple(line.split()[2:]) for line in lines if "mlp 1:" in line} == {
        ("mlp", "1:", "10", "calls", "before,", "7", "after")
    }


def test_a_journal_answers_for_models_that_were_finished(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["--models", "6", "--journal", str(tmp_path / "queue.journal")]
    assert [main(given), main([*given, "--backend", "trio"])] == [0, 0]
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 14
    assert [line.endswith(", from the journal") for line in lines if " gets " in line] == [False] * 6 + [True] * 6
    assert {line.removesuffix(", from the journal") for line in lines[7:]} == set(lines[:7])
