"""Docstrings, comments, messages, test names and pages follow the rules of prose."""

import re
from pathlib import Path

import pytest

from tests.architecture.prose import check_file, check_text
from tests.helpers.repository import ROOT

PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks", "docs", "examples")
PACKAGES = sorted(path.name for path in (ROOT / "apass").iterdir() if path.suffix == ".py" or path.is_dir())


def breaches(path: Path) -> list[str]:
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    # The libraries of the report's page are installed into the package for a build.
    own = [file for file in files if file.suffix in (".py", ".md") and "node_modules" not in file.parts]
    return [str(found) for file in own for found in check_file(file)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "__pycache__"])
def test_package_follows_rules_of_prose(name: str) -> None:
    assert breaches(ROOT / "apass" / name) == []


@pytest.mark.parametrize("name", PAGES)
def test_pages_follow_rules_of_prose(name: str) -> None:
    assert breaches(ROOT / name) == []


def test_messages_about_arguments_end_alike() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in (ROOT / "apass").rglob("*.py")
        for match in re.finditer(r"(must be|must hold|takes|expected)\b[^\n]*[,;] not \{", path.read_text())
    ]
    # As in `limit must be an int of at least 1 or None, got 'x'`.
    assert found == []


def test_rooms_of_the_runner_name_their_nouns() -> None:
    rooms = [ROOT / "apass" / room for room in ("concurrency", "core", "loading", "passes", "runner")]
    found = {
        str(path.relative_to(ROOT)): match.group()
        for room in rooms
        for path in room.rglob("*.py")
        for match in re.finditer(r"\b(?:that|those)\s+(?:#\s*)?of\b", path.read_text())
    }
    # Repeat the noun, or write its possessive: a reader must not look for what a pronoun is about.
    assert found == {}


@pytest.mark.slow
def test_tests_follow_rules_of_prose() -> None:
    assert breaches(ROOT / "tests") == []


@pytest.mark.parametrize(
    ("text", "start"),
    [("Who asks.", "'Who'"), ("at work", "'at work'"), ("word " * 33, "a sentence of 33 words")],
)
def test_breach_is_found(text: str, start: str) -> None:
    assert [message.partition(":")[0] for message in check_text(text)] == [start]


def test_breaches_in_code_are_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        f'"""{"Long " * 20}."""\n# Nobody reads this.\ndef test_one_two_three_four_five_six_seven_eight_nine(): ...\n'
    )
    assert [(found.line, found.text.partition(" ")[0]) for found in check_file(path)] == [
        (1, "a"),
        (2, "'Nobody':"),
        (3, "a"),
    ]
