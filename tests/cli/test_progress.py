"""`--progress`, `--watch` and `--no-progress`: the display during a run."""

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

from tests.helpers.command_line import TEST_DATA, apass, program, script, write_model
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process

DENSENET = TEST_DATA / "light" / "light_densenet121.onnx"

HOLD_PASS = """
import faulthandler
import onnx_ir as ir
from apass.adapters.onnx.passes import OnnxPass
from apass.core.pass_info import PassInfo
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
def hold_pass(folder: Path) -> Generator[tuple[str, Callable[[], None]]]:
    """Yield code that registers the pass Hold, and a function that releases it.

    The pass is an onnx_ir pass. It blocks its thread until it is released.
    """
    path = folder / "gate"
    os.mkfifo(path)
    gate = os.open(path, os.O_RDWR)
    try:
        yield f"GATE = {str(path)!r}\n{HOLD_PASS}", lambda: _write(gate)
    finally:
        os.close(gate)


def _write(gate: int) -> None:
    os.write(gate, b"!")


def on_terminal(*arguments: object, body: str = "", read: Callable[[str], None] | None = None) -> tuple[int, str]:
    """Run the command line with a terminal as standard error.

    Return the status and the output on the terminal. `read` is called with the output so far whenever there is more.
    """
    master, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", f"{body}\nfrom apass.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        text = b""
        while select.select([master], [], [], 300)[0]:
            try:
                text += os.read(master, 65536)
            except OSError:
                # On Linux, reading fails with EIO once the terminal is closed.
                break
            if read is not None:
                read(plain(text))
        os.close(master)
        return process.wait(300), plain(text)


def plain(text: bytes) -> str:
    """Return the output of a terminal without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode(errors="ignore"))


def test_progress_in_a_pipe_counts_unreadable_models(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x09\x12 no model")
    options = ("--progress", "--progress-interval", 1000)
    result = apass("opt", tmp_path, "-o", tmp_path / "out", *options, "--backend", backend)
    line = result.stderr.splitlines()[0]
    assert line.startswith("2 of 2 modules, 1 failed; running: 0 modules, 0 passes, 0 functions; ")


def test_watch_in_a_pipe_prints_waiting_passes(tmp_path: Path) -> None:
    arguments = ("opt", DENSENET, "-o", tmp_path / "out", "-p", "Hold", "--watch", "--progress-interval", 0.05)
    lines: list[str] = []
    with hold_pass(tmp_path) as (body, release), script(body, arguments) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
            if line.endswith(" for its worker thread\n"):
                release()
    waits = [line for line in lines if line.endswith(" for its worker thread")]
    assert lines[-1].startswith("1 of 1 module; running: 0 modules, 0 passes, 0 functions; ")
    assert re.fullmatch(rf"  {DENSENET.name}: sequential/Hold: waits [\d.]+ s for its worker thread", waits[-1])
    assert process.returncode == 0


@pytest.mark.slow
def test_terminal_shows_at_most_one_bar(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    shown = {option: on_terminal("opt", model, option) for option in ("--in-place", "--progress", "--no-progress")}
    assert {status for status, _ in shown.values()} == {0}
    assert ["optimizing" in text for _, text in shown.values()] == [True, False, False]
    assert ["of 1 module" in text for _, text in shown.values()] == [False, True, False]
    assert shown["--no-progress"] == (0, "")


@pytest.mark.slow
def test_watch_on_a_terminal_shows_waiting_passes(tmp_path: Path) -> None:
    row = re.compile(r"densenet121\.onnx +sequential/Hold +waits [\d.]+ s for its worker thread")
    with hold_pass(tmp_path) as (body, release):

        def read(shown: str) -> None:
            if row.search(shown):
                release()

        status, shown = on_terminal(
            "opt", DENSENET, "-o", tmp_path / "out", "-p", "Hold", "--watch", body=body, read=read
        )
    assert (status, bool(row.search(shown)), "optimizing" in shown) == (0, True, False)
