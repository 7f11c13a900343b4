"""`--cache` with a file that is not a cache, or is damaged."""

from pathlib import Path

import pytest

from tests.helpers.command_line import apass, write_model
from tests.helpers.folders import files


@pytest.mark.parametrize("command", [["cache", "info"], ["cache", "clear"], ["opt", "model.onnx"]])
def test_other_file_as_cache_is_left_unchanged(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.onnx", identities=2)
    before = (tmp_path / "model.onnx").read_bytes()
    result = apass(*command, "--cache", "model.onnx")
    message = "'model.onnx' is not a cache file and was left unchanged; name another file, or delete this one"
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
    assert (tmp_path / "model.onnx").read_bytes() == before
    assert list(files(tmp_path)) == ["model.onnx"]


@pytest.mark.parametrize("command", [["cache", "info"], ["opt", "model.onnx"]])
def test_damaged_cache_is_one_line_of_warning(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.onnx", identities=2)
    (tmp_path / "results.db").write_bytes(b"SQLite format 3\0" + b"damage" * 1000)
    result = apass(*command, "--cache", "results.db")
    (line,) = (line for line in result.stderr.splitlines() if "damaged" in line)
    assert line.startswith("apass: warning: the store 'results.db' is damaged (")
    assert "site-packages" not in result.stderr
    assert result.exit_code == 0
