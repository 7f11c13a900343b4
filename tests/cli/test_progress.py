"""`--progress`, `--watch` and `--no-progress`: what is shown of a run meanwhile."""

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.models import ROOT, TEST_DATA, apass, script, write_model
from tests.cli.test_relay import program

DENSENET = TEST_DATA / "light" / "light_densenet121.onnx"

HOLDS = """
import faulthandler
import onnx_ir as ir
from apass.adapters.onnx.passes import OnnxPass
from apass.core.info import PassInfo
from apass.passes.registry import register_pass

faulthandler.dump_traceback_later(300, exit=True)

class Hold(ir.passes.InPlacePass):
    def call(self, model):
        with open(GATE, "rb", buffering=0) as gate:
            gate.read(1)
        return ir.passes.PassResult(model, modified=False)

register_pass("Hold", lambda: OnnxPass(Hold, PassInfo(0, "Hold"), {}))
"""


@contextmanager
def held(folder: Path) -> Generator[tuple[str, Callable[[], None]]]:
    """Give what registers a pass of onnx_ir, Hold, that keeps its thread until it is let go; and what lets it go."""
    path = folder / "gate"
    os.mkfifo(path)
    gate = os.open(path, os.O_RDWR)
    try:
        yield f"GATE = {str(path)!r}\n{HOLDS}", lambda: _write(gate)
    finally:
        os.close(gate)


def _write(gate: int) -> None:
    os.write(gate, b"!")


def on_terminal(*arguments: object, body: str = "", read: Callable[[str], None] | None = None) -> tuple[int, str]:
    """Run the command line with a terminal for its error output; return the status, and what that terminal got.

    `read` is told meanwhile what it has got so far.
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", f"{body}\nfrom apass.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as started:
        os.close(theirs)
        text = b""
        while select.select([ours], [], [], 300)[0]:
            try:
                text += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if read is not None:
                read(plain(text))
        os.close(ours)
        return started.wait(300), plain(text)


def plain(text: bytes) -> str:
    """Return what a terminal got, without what moves and colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode(errors="ignore"))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_a_pipe_progress_is_a_line_that_counts_models_that_cannot_be_read_too(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x09\x12 no model")
    at_the_end = ("--progress", "--progress-interval", 1000)
    result = apass("opt", tmp_path, "-o", tmp_path / "out", *at_the_end, "--backend", backend)
    (line,) = result.stderr.splitlines()
    assert line.startswith("2 of 2 modules, 1 failed; at work: 0 modules, 0 passes, 0 functions; ")


def test_in_a_pipe_the_live_view_prints_what_waits(tmp_path: Path) -> None:
    given = ("opt", DENSENET, "-o", tmp_path / "out", "-p", "Hold", "--watch", "--progress-interval", 0.05)
    lines: list[str] = []
    with held(tmp_path) as (body, let_go), script(body, given) as started:
        assert started.stderr is not None
        for line in started.stderr:
            lines.append(line.rstrip("\n"))
            if line.endswith(" for its worker thread\n"):
                let_go()
    waits = [line for line in lines if line.endswith(" for its worker thread")]
    assert lines[-1].startswith("1 of 1 module; at work: 0 modules, 0 passes, 0 functions; ")
    assert re.fullmatch(rf"  {DENSENET.name}: sequential/Hold: waits [\d.]+ s for its worker thread", waits[-1])
    assert started.returncode == 0


def test_on_a_terminal_there_is_one_bar_or_none(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    shown = {option: on_terminal("opt", model, option) for option in ("--in-place", "--progress", "--no-progress")}
    assert {status for status, _ in shown.values()} == {0}
    assert ["optimizing" in text for _, text in shown.values()] == [True, False, False]
    assert ["of 1 module" in text for _, text in shown.values()] == [False, True, False]
    assert shown["--no-progress"] == (0, "")


def test_on_a_terminal_the_live_view_shows_what_is_waited_for(tmp_path: Path) -> None:
    row = re.compile(r"densenet121\.onnx +sequential/Hold +waits [\d.]+ s for its worker thread")
    with held(tmp_path) as (body, let_go):

        def read(shown: str) -> None:
            if row.search(shown):
                let_go()

        status, shown = on_terminal(
            "opt", DENSENET, "-o", tmp_path / "out", "-p", "Hold", "--watch", body=body, read=read
        )
    assert (status, bool(row.search(shown)), "optimizing" in shown) == (0, True, False)
