"""The program as it is started from a shell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = [str(Path(sys.executable).with_name("apass"))]
MODULE = [sys.executable, "-m", "apass"]


@pytest.mark.parametrize("program", [SCRIPT, MODULE], ids=["script", "module"])
def test_what_a_pipeline_names_is_found_in_the_current_folder(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def is_small(mod):\n    return True\n")
    # A file there must not be taken for a module of Python's.
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')\n")
    # What `-m` puts first is what the user asked Python for, and can ask it to leave out.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [*program, "plan", "-p", "If{predicate=rules:is_small}(FoldConstant)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[1] == "run      If              decided at run time by its predicate"
