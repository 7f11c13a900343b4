"""`--cache` with a file that is no cache: a line, and the file stays what it was."""

from pathlib import Path

import pytest

from tests.cli.models import apass, files, write_model


@pytest.mark.parametrize("command", [["cache", "info"], ["cache", "clear"], ["opt", "model.onnx"]])
def test_a_file_of_another_kind_is_left_as_it_is(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.onnx", identities=2)
    before = (tmp_path / "model.onnx").read_bytes()
    result = apass(*command, "--cache", "model.onnx")
    said = "'model.onnx' is no cache, and is left as it is; name another file, or delete this one"
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
    assert (tmp_path / "model.onnx").read_bytes() == before
    assert list(files(tmp_path)) == ["model.onnx"]


@pytest.mark.parametrize("command", [["cache", "info"], ["opt", "model.onnx"]])
def test_a_damaged_cache_is_told_in_a_line(tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "model.onnx", identities=2)
    (tmp_path / "results.db").write_bytes(b"SQLite format 3\0" + b"damage" * 1000)
    result = apass(*command, "--cache", "results.db")
    (line,) = (line for line in result.stderr.splitlines() if "damaged" in line)
    assert line.startswith("apass: warning: the store 'results.db' is damaged (")
    assert "site-packages" not in result.stderr
    assert result.exit_code == 0
