"""The folder for temporary files of a server, after `kill -9`."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apass.service.scratch_folder import scratch_folder
from tests.helpers.folders import files
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks on folders")

HOLDER = """
import sys
from apass.service.scratch_folder import scratch_folder
with scratch_folder() as folder:
    (folder / "apass-upload-1.part").write_text("half")
    print(folder, flush=True)
    sys.stdin.read()
"""
"""Holds a folder until the end of its input."""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set another folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def holder(temporary: Path) -> Generator[tuple["subprocess.Popen[str]", Path]]:
    """Start a process that holds a folder."""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    command, pipe = [sys.executable, "-c", HOLDER], subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


@pytest.mark.process
def test_next_start_removes_what_killed_process_left(temporary: Path) -> None:
    with holder(temporary) as (process, killed), holder(temporary) as (_, living):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (killed / "apass-upload-1.part").exists()
        with scratch_folder() as own:
            assert not killed.exists()
            assert (living / "apass-upload-1.part").exists()
            with scratch_folder():
                assert own.exists()


def test_folder_is_removed_at_end(temporary: Path) -> None:
    with scratch_folder() as folder:
        (folder / "x").touch()
        assert folder.stat().st_mode & 0o777 == 0o700
    assert files(temporary) == []
    assert list(temporary.iterdir()) == []


def test_links_and_other_folders_are_kept(temporary: Path) -> None:
    (temporary / "mine").mkdir()
    (temporary / "mine" / "data").touch()
    (temporary / "apass-service-link").symlink_to(temporary / "mine")
    (temporary / "apass-service-file").touch()
    with scratch_folder():
        pass
    assert files(temporary / "mine") == ["data"]
    assert (temporary / "apass-service-file").exists()
