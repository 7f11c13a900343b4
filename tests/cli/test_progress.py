"""`--progress`, `--watch` and `--no-progress`: what is shown of a run meanwhile."""

import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.models import ROOT, TEST_DATA, apass, write_model
from tests.cli.test_relay import program


def on_terminal(*arguments: object) -> tuple[int, str]:
    """Run the command line with a terminal for its error output; return the status, and what that terminal got."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", "from apass.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as started:
        os.close(theirs)
        text = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                text += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        os.close(ours)
        return started.wait(60), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode())


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_a_pipe_progress_is_a_line_that_counts_models_that_cannot_be_read_too(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x09\x12 no model")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--progress", "--backend", backend)
    (line,) = result.stderr.splitlines()
    assert line.startswith("2 of 2 modules, 1 failed; at work: 0 modules, 0 passes, 0 functions; ")


def test_in_a_pipe_the_live_view_prints_what_waits(tmp_path: Path) -> None:
    model = TEST_DATA / "light" / "light_densenet121.onnx"
    result = apass("opt", model, "-o", tmp_path / "out", "--watch", "--progress-interval", 0.05)
    lines = result.stderr.splitlines()
    waits = [line for line in lines if line.endswith(" for its worker thread")]
    assert lines[-1].startswith("1 of 1 module; at work: 0 modules, 0 passes, 0 functions; ")
    assert re.fullmatch(
        rf"  {model.name}: sequential/onnx.Default/onnx.\w+: waits [\d.]+ s for its worker thread", waits[-1]
    )


def test_on_a_terminal_there_is_one_bar_or_none(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    shown = {option: on_terminal("opt", model, option) for option in ("--in-place", "--progress", "--no-progress")}
    assert {status for status, _ in shown.values()} == {0}
    assert ["optimizing" in text for _, text in shown.values()] == [True, False, False]
    assert ["of 1 module" in text for _, text in shown.values()] == [False, True, False]
    assert shown["--no-progress"] == (0, "")


def test_on_a_terminal_the_live_view_shows_what_is_waited_for(tmp_path: Path) -> None:
    model = TEST_DATA / "light" / "light_densenet121.onnx"
    status, shown = on_terminal("opt", model, "-o", tmp_path / "out", "--watch")
    rows = [" ".join(line.split()) for line in shown.splitlines() if "worker thread" in line]
    assert (status, "optimizing" in shown) == (0, False)
    assert re.search(r"densenet121\.onnx .*/onnx\.\w+ waits [\d.]+ s for its worker thread$", rows[-1])
