"""The program as started from a shell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

SCRIPT = [str(Path(sys.executable).with_name("apass"))]
MODULE = [sys.executable, "-m", "apass"]


@pytest.mark.parametrize("program", [SCRIPT, MODULE], ids=["script", "module"])
def test_pipeline_finds_modules_in_current_directory(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("def is_small(mod):\n    return True\n")
    # A file in the current directory must not shadow a module of the standard library.
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')\n")
    # `python -m` puts the current directory first on `sys.path`; PYTHONSAFEPATH turns this off.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [*program, "plan", "-p", "If{predicate=rules:is_small}(FoldConstant)"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split("\n")[1] == "run      If              decided at run time by its predicate"
