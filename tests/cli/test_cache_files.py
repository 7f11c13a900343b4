"""`--cache` with a file that is not a cache, or is damaged."""

import gc
import sqlite3
import warnings as python_warnings
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, write_model
from tests.helpers.folders import files
from tests.helpers.full_disk import tiny_disk


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


@pytest.mark.parametrize("kibibytes", [64, 128])
def test_full_disk_costs_one_warning(tmp_path: Path, kibibytes: int) -> None:
    write_model(tmp_path / "model.onnx", identities=2)
    with tiny_disk(tmp_path / "disk", kibibytes) as disk:
        if kibibytes == 64:
            (disk / "other").write_bytes(bytes(kibibytes * 1024))
        result = apass("opt", tmp_path / "model.onnx", "-o", tmp_path / "out", "--cache", disk / "results.db")
    assert result.exit_code == 0, result.output
    warnings = [line for line in result.stderr.splitlines() if "continuing without the store" in line]
    assert len(warnings) <= 1
    if kibibytes == 64:
        assert warnings[0].startswith(f"apass: warning: the store '{disk}/results.db' cannot be used: ")
    assert list(files(tmp_path / "out")) == ["model.onnx"]


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file/results.db", "cannot be created: File exists"),
        ("file/inner/results.db", "cannot be created: Not a directory"),
        ("other.db", "is a database with another schema and was not changed; use another file"),
    ],
)
def test_unusable_cache_costs_one_warning(tmp_path: Path, location: str, reason: str) -> None:
    write_model(tmp_path / "model.onnx", identities=2)
    (tmp_path / "file").touch()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE notes (text TEXT)")
    path = tmp_path / location
    result = apass("opt", tmp_path / "model.onnx", "-o", tmp_path / "out", "--cache", path)
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stderr.splitlines() if "warning" in line)
    assert line == f"apass: warning: the store '{path}' {reason}; continuing without the store"
    assert apass("cache", "info", "--cache", path).exit_code == 2


@pytest.mark.network
@pytest.mark.parametrize("url", ["redis://user:secret@127.0.0.1:9/0", "redis://127.0.0.1:port"])
def test_unreachable_server_costs_one_warning(tmp_path: Path, url: str) -> None:
    write_model(tmp_path / "model.onnx", identities=2)
    with python_warnings.catch_warnings():
        # coredis does not close the streams of failed connections.
        python_warnings.simplefilter("ignore", ResourceWarning)
        result = apass("opt", tmp_path / "model.onnx", "-o", tmp_path / "out", "--cache", url)
        gc.collect()
    assert result.exit_code == 0, result.output
    (line,) = (line for line in result.stderr.splitlines() if "continuing without the store" in line)
    assert line.startswith("apass: warning: the Redis server 'redis://")
    assert "secret" not in result.stderr
