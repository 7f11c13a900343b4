"""Unreadable models: an error if they are named, skipped in a search."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from apass.cli.inputs import find_models
from apass.errors import InputError
from tests.helpers.command_line import apass

NOBODY = 65534
"""The user id of `nobody` on Linux."""


@contextmanager
def without_privileges() -> Generator[None]:
    """Run the block as a user without root privileges; root ignores permissions."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def folder() -> Generator[Path]:
    """Yield a readable folder with an unreadable folder in it, and a model in each."""
    with TemporaryDirectory() as name:
        closed = Path(name, "closed")
        closed.mkdir()
        for parent in (closed.parent, closed):
            (parent / "m.onnx").touch()
        closed.parent.chmod(0o755)
        closed.chmod(0)
        yield closed.parent
        closed.chmod(0o755)


def test_unreadable_folder_is_an_error(folder: Path) -> None:
    with without_privileges(), pytest.raises(InputError, match=r"cannot read .*closed: Permission denied"):
        find_models([str(folder / "closed")], [".onnx"])


def test_model_in_unreadable_folder_is_an_error(folder: Path) -> None:
    with without_privileges(), pytest.raises(InputError, match=r"cannot read .*m.onnx: Permission denied"):
        find_models([str(folder / "closed" / "m.onnx")], [".onnx"])


def test_search_skips_unreadable_folders(folder: Path) -> None:
    with without_privileges():
        assert find_models([str(folder)], [".onnx"]) == [folder / "m.onnx"]


def test_search_keeps_models_without_readable_metadata(folder: Path) -> None:
    (folder / "closed").chmod(0o744)
    with without_privileges():
        assert find_models([str(folder)], [".onnx"]) == [folder / "closed" / "m.onnx", folder / "m.onnx"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", "the path of a model is empty; name a file, a directory or a glob"),
        ("m" * 300, f"cannot read {'m' * 300}: File name too long"),
        ("away.onnx", "no such file or directory: 'away.onnx'"),
    ],
)
def test_invalid_model_path_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, message: str
) -> None:
    (tmp_path / "away.onnx").symlink_to("nowhere.onnx")
    monkeypatch.chdir(tmp_path)
    result = apass("opt", model)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")
