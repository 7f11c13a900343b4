"""The program as started from a shell."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]

SCRIPT = [str(Path(sys.executable).with_name("apass"))]
MODULE = [sys.executable, "-m", "apass"]


@pytest.mark.parametrize("program", [SCRIPT, MODULE], ids=["script", "module"])
def test_program_imports_nothing_from_working_directory(program: list[str], tmp_path: Path) -> None:
    # `rich` is imported by the command line, `rules` is named in the pipeline.
    for name in ("rich", "typer", "rules"):
        (tmp_path / f"{name}.py").write_text("print('imported from the working directory')\n")
    command = [*program, "plan", "-p", "If{predicate=rules:is_small}(FoldConstant)"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no callable is registered under the name 'rules:is_small'" in result.stderr
