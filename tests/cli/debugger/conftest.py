"""Fixtures for tests of the debugger."""

from pathlib import Path

import pytest

from tests.helpers.command_line import program


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model file."""
    return program(tmp_path / "m.relay", '#[version = "0.0.5"]\ndef @main(%x: int32) { add(%x, add(2, 3)) }\n')
