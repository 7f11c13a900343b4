"""The debugger in a real terminal, driven by keys."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

import apass
from tests.helpers.terminals import TMUX, Terminal

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(TMUX is None, reason="tmux is not installed"),
]

EDITOR = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
print("EDITING", path.name, flush=True)
if input() == "yes":
    path.write_text(path.read_text().replace("3 /*", "40 /*"))
"""
"""An editor that takes the terminal: it reads a line."""


def debugger(model: Path, *options: str) -> list[str]:
    """Return the command that debugs a model."""
    return [sys.executable, "-m", "apass", "debug", model.name, "-p", "FoldConstant", *options]


def test_keys_drive_a_whole_run(model: Path, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(EDITOR)
    env = {"EDITOR": f"{sys.executable} {editor}", "VISUAL": ""}
    with Terminal(tmp_path, debugger(model, "-o", "out"), env) as terminal:
        terminal.wait_for(
            "m.relay: paused before sequential (interrupt)",
            "‖ sequential",
            "· FoldConstant",
            "def @main(%x: int32) -> int32 {",
        )
        terminal.press("s")
        terminal.wait_for("paused before FoldConstant (step)")
        terminal.press("e")
        editing = terminal.wait_for("EDITING module.relay")
        assert "FoldConstant" not in editing
        terminal.press("yes", "Enter")
        terminal.wait_for("paused before FoldConstant (replace)")
        terminal.press("d")
        terminal.wait_for("+  %0 = add(2 /* ty=int32 */, 40")
        terminal.press("w")
        terminal.wait_for("write a reproducer to the folder")
        terminal.press("Enter")
        terminal.wait_for("to run it: apass replay reproducer")
        terminal.press("n")
        terminal.wait_for("paused after FoldConstant (next)")
        terminal.press("b")
        terminal.wait_for("add or remove a breakpoint")
        terminal.press("-l", "error")
        terminal.press("Enter")
        terminal.wait_for("added error")
        terminal.press("c")
        terminal.wait_for("finished", "✓ FoldConstant")
        terminal.press("q")
        terminal.wait_for("optimized m.relay: out/m.relay", "status 0")
        assert not terminal.is_alternate
    assert "42" in (tmp_path / "out/m.relay").read_text()
    assert apass.read_reproducer(tmp_path / "reproducer").pass_name == "FoldConstant"


def test_screen_returns_after_failed_editor(model: Path, tmp_path: Path) -> None:
    with Terminal(tmp_path, debugger(model), {"EDITOR": "false", "VISUAL": ""}) as terminal:
        terminal.wait_for("paused before sequential")
        terminal.press("e")
        terminal.wait_for("paused before sequential", "the editor 'false' failed with status 1")
        terminal.press("q")
        terminal.wait_for("quit before the end of 1 of 1 model", "status 130")
        assert not terminal.is_alternate


def test_quit_leaves_terminal_as_it_was(model: Path, tmp_path: Path) -> None:
    with Terminal(tmp_path, debugger(model), {}) as terminal:
        terminal.wait_for("paused before sequential")
        assert terminal.is_alternate
        terminal.press("C-c")
        terminal.wait_for("quit before the end of 1 of 1 model", "status 130")
        assert not terminal.is_alternate


def test_signal_leaves_terminal_as_it_was(model: Path, tmp_path: Path) -> None:
    with Terminal(tmp_path, debugger(model), {}) as terminal:
        terminal.wait_for("paused before sequential")
        (process,) = psutil.Process(terminal.pid).children()
        os.kill(process.pid, signal.SIGTERM)
        terminal.wait_for("status 143")
        assert not terminal.is_alternate
        terminal.press("-l", "typed")
        terminal.wait_for("typed")


def test_pass_that_waits_does_not_block_keys(tmp_path: Path, model: Path) -> None:
    passes = tmp_path / "passes.py"
    passes.write_text(
        "import anyio, apass\n"
        "@apass.register_pass\n"
        "@apass.module_pass(opt_level=0)\n"
        "async def Slow(mod, ctx):\n"
        "    with apass.waiting_for('a service'):\n"
        "        await anyio.sleep_forever()\n"
    )
    command = [sys.executable, "-m", "apass", "--load", "passes.py", "debug", model.name, "-p", "Slow"]
    with Terminal(tmp_path, [*command, "--break", "wait:0.2"], {}) as terminal:
        terminal.wait_for("paused before sequential")
        terminal.press("c")
        terminal.wait_for("paused during the wait of Slow (wait:0.2)")
        terminal.press("c")
        terminal.wait_for("s for a service", "~ Slow")
        terminal.press("q")
        terminal.wait_for("status 130")
