"""`Attempts`: outcomes in a file, which may be cut off or of another search."""

import os
from pathlib import Path

import pytest

from apass.debugging.attempts import Attempts

OUTCOMES = {"a": True, "b": False, "c": True}


def written(path: Path, search: str = "search") -> list[str]:
    """Write outcomes, and return the lines of the file."""
    attempts = Attempts(path, search)
    for digest, fails in OUTCOMES.items():
        attempts.add(digest, fails)
    return path.read_text().splitlines(keepends=True)


def test_outcomes_are_known_to_next_search(tmp_path: Path) -> None:
    written(tmp_path / "f.tried")
    attempts = Attempts(tmp_path / "f.tried", "search")
    assert ({name: attempts.get(name) for name in "abcd"}, attempts.known) == ({**OUTCOMES, "d": None}, 3)


def test_file_of_another_search_is_replaced(tmp_path: Path) -> None:
    written(tmp_path / "f.tried", "other")
    assert Attempts(tmp_path / "f.tried", "search").known == 0
    assert len(written(tmp_path / "f.tried")) == 4
    assert Attempts(tmp_path / "f.tried", "other").known == 0


@pytest.mark.parametrize("damage", ['{"tried": "c", "fa', '{"tried": 1, "fails": true}\n', "[]\n", "\n", "[" * 100_000])
def test_damaged_line_ends_the_file(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f.tried"
    lines = written(path)
    path.write_text("".join([*lines[:3], damage, lines[3]]))
    attempts = Attempts(path, "search")
    assert attempts.known == 2
    attempts.add("d", False)
    assert path.read_text().splitlines(keepends=True) == [
        *lines[:3],
        lines[3].replace("c", "d").replace("true", "false"),
    ]


def test_discarded_file_is_removed(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path / "new" / "f.tried", "search")
    attempts.add("a", True)
    attempts.discard()
    attempts.discard()
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")
def test_pipe_of_a_stranger_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.tried")
    assert Attempts(tmp_path / "f.tried", "search").known == 0
    assert len(written(tmp_path / "f.tried")) == 4


def test_link_of_a_stranger_is_replaced(tmp_path: Path) -> None:
    written(tmp_path / "real")
    (tmp_path / "f.tried").symlink_to(tmp_path / "real")
    attempts = Attempts(tmp_path / "f.tried", "search")
    assert attempts.known == 0
    attempts.add("d", True)
    assert not (tmp_path / "f.tried").is_symlink()
    assert len((tmp_path / "real").read_text().splitlines()) == 4
