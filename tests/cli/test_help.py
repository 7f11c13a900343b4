"""`--help`: groups by purpose, examples first, and the common options with `-h`."""

import pytest

from apass.cli.app import COMMANDS, GROUPS, load_command
from apass.cli.panels import PANELS
from tests.helpers.command_line import apass


def help_of(*arguments: str) -> str:
    """Return the help that a command prints."""
    result = apass(*arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def titles(text: str) -> list[str]:
    """Return the titles of the panels."""
    return [line.strip("─╭╮ ") for line in text.splitlines() if line.startswith("╭")]


def test_short_help_shows_common_options_only() -> None:
    short, full = help_of("opt", "-h"), help_of("opt", "--help")
    options = {option for param in load_command("opt").params for option in param.opts if option.startswith("--")}
    shown = {text: {option for option in options if f"{option} " in text} for text in (short, full)}
    assert shown[full] == options
    assert (len(shown[short]) < len(options) / 2, {"--pipeline", "--output", "--report"} <= shown[short]) == (
        True,
        True,
    )
    assert "opt --help` shows all options." in short
    assert help_of("opt", "-h", "--help") == full


def test_options_are_grouped_by_purpose() -> None:
    assert titles(help_of("opt", "--help")) == ["Arguments", "Options", *PANELS]
    assert titles(help_of("--help")) == ["Options", *GROUPS]


def test_examples_come_before_options() -> None:
    for name in COMMANDS:
        text = help_of(name, "--help")
        assert "Example" not in text or text.index("Example") < text.index("╭"), name
        assert "Example" not in text.partition("╭")[2], name
