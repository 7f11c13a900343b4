"""Models that are there and cannot be read: said in a line, or left out where nobody named them."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from apass.cli.inputs import InputError, find_models
from tests.cli.models import apass

NOBODY = 65534


@contextmanager
def without_privileges() -> Generator[None]:
    """Be a user to whom permissions matter."""
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
    """Give a folder that every user may read, with a closed one in it, and a model in each."""
    with TemporaryDirectory() as name:
        closed = Path(name, "closed")
        closed.mkdir()
        for place in (closed.parent, closed):
            (place / "m.onnx").touch()
        closed.parent.chmod(0o755)
        closed.chmod(0)
        yield closed.parent
        closed.chmod(0o755)


def test_a_folder_that_cannot_be_read_is_told(folder: Path) -> None:
    with without_privileges(), pytest.raises(InputError, match=r"cannot read .*closed: Permission denied"):
        find_models([str(folder / "closed")], [".onnx"])


def test_a_model_in_a_folder_that_cannot_be_read_is_told(folder: Path) -> None:
    with without_privileges(), pytest.raises(InputError, match=r"cannot read .*m.onnx: Permission denied"):
        find_models([str(folder / "closed" / "m.onnx")], [".onnx"])


def test_a_search_leaves_out_folders_that_cannot_be_read(folder: Path) -> None:
    with without_privileges():
        assert find_models([str(folder)], [".onnx"]) == [folder / "m.onnx"]


def test_a_search_finds_models_that_cannot_be_looked_at_so_that_they_fail_by_name(folder: Path) -> None:
    (folder / "closed").chmod(0o744)
    with without_privileges():
        assert find_models([str(folder)], [".onnx"]) == [folder / "closed" / "m.onnx", folder / "m.onnx"]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("", "a model was named by an empty text"),
        ("m" * 300, f"cannot read {'m' * 300}: File name too long"),
        ("away.onnx", "no such file or directory: 'away.onnx'"),
    ],
)
def test_what_is_no_place_for_a_model_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, complaint: str
) -> None:
    (tmp_path / "away.onnx").symlink_to("nowhere.onnx")
    monkeypatch.chdir(tmp_path)
    result = apass("opt", model)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {complaint}\n")
