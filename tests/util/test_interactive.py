"""Definitions that are executed again in a session, or made twice elsewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

DEFINE = """
@apass.register_pass
@apass.module_pass(opt_level=0)
def Fold(mod, ctx): return {}

"""
TAKEN = "PassRegistrationError: a pass named 'Fold' is already registered"


def run_python(folder: Path, *arguments: str, lines: str = "") -> str:
    """Return what Python prints as errors, without its prompts."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, input=lines, capture_output=True, text=True, check=False)
    return done.stderr.replace(">>> ", "").replace("... ", "").strip()


def test_prompt_replaces_definition_entered_again(tmp_path: Path) -> None:
    lines = f"import apass\n{DEFINE}{DEFINE}"
    assert run_python(tmp_path, "-i", "-q", lines=lines) == ""


def test_prompt_rejects_other_definition(tmp_path: Path) -> None:
    other = DEFINE.replace("def Fold", "def Other").replace("register_pass", "register_pass('Fold')")
    assert TAKEN in run_python(tmp_path, "-i", "-q", lines=f"import apass\n{DEFINE}{other}")


def test_program_rejects_definition_made_twice(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"import apass\n{DEFINE}{DEFINE}")
    assert TAKEN in run_python(tmp_path, "program.py")


def test_module_imported_at_prompt_rejects_second_definition(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(f"import apass\n{DEFINE}{DEFINE}")
    assert TAKEN in run_python(tmp_path, "-i", "-q", lines="import library\n")


def test_unregistered_definition_can_be_made_elsewhere(tmp_path: Path) -> None:
    other = DEFINE.replace("def Fold", "def Other").replace("register_pass", "register_pass('Fold')")
    lines = f"import apass\n{DEFINE}apass.unregister_pass('Fold')\n{other}{other}"
    assert run_python(tmp_path, "-i", "-q", lines=lines) == ""
