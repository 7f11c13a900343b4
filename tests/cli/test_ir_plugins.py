"""Every command on the IR of a third party: a distribution in a fresh environment."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process

SOURCE = ROOT / "examples/python_ast/python_ir.py"
PROGRAM = """import os

def f(x):
    assert x
    return x * (2 + 3)

def g():
    return 1

print(f(2))
"""
RESULT = "import os\n\ndef f(x):\n    return x * 5\n\ndef g():\n    return 1\nprint(f(2))\n"
FAILING = '''
import apass

class Fail(apass.FunctionPass, opt_level=1, name="python.Fail"):
    """Fail on functions with an assert."""

    def transform_function(self, func, mod, ctx):
        if any(type(node).__name__ == "Assert" for node in func.body):
            raise ValueError("an assert")
        return func
'''
ENTRY_POINTS = """[apass.irs]
ast.Module = python_ir:PLUGIN
.py = python_ir:PLUGIN
[apass.passes]
python.FoldConstants = python_ir:FoldConstants
python.RemoveAsserts = python_ir:RemoveAsserts
python.Fail = python_fail:Fail
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the plug-in from a wheel, and return the environment's Python."""
    folder = tmp_path_factory.mktemp("environment")
    wheel = folder / "python_ir-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(SOURCE, "python_ir.py")
        archive.writestr("python_fail.py", FAILING)
        archive.writestr("python_ir-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: python-ir\nVersion: 1.0\n")
        archive.writestr(
            "python_ir-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("python_ir-1.0.dist-info/entry_points.txt", ENTRY_POINTS)
        archive.writestr("python_ir-1.0.dist-info/RECORD", "")
    # Installing pip into the environment takes most of a minute on a busy machine. To install such a wheel is to
    # unpack it.
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv/bin/python"
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(purelib)
    # The libraries of this environment, without installing them again.
    Path(purelib, "apass.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return python


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.py").write_text(PROGRAM)
    return tmp_path


def run(
    python: Path, folder: Path, *arguments: str, text: str | None = None, **environment: str
) -> tuple[int, str, str]:
    """Run a command; return status, output and error output."""
    done = subprocess.run(
        [python, "-P", "-m", "apass", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", **environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_opt_writes_optimized_programs(program: Path, folder: Path) -> None:
    status, out, error = run(program, folder, "opt", "p.py", "-o", "o.py", "--verify-outputs", "--verify=always")
    assert (status, error, (folder / "o.py").read_text()) == (0, "", RESULT)
    assert "30 -> 24" in out
    assert "outputs equal" in out


@pytest.mark.slow
def test_opt_reads_and_writes_streams(program: Path, folder: Path) -> None:
    arguments = ("opt", "-", "--from", "py", "-o", "-", "-q")
    assert run(program, folder, *arguments, text=PROGRAM) == (0, RESULT, "")


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["process", "thread"])
def test_executors_run_its_passes(program: Path, folder: Path, executor: str) -> None:
    status, _, error = run(program, folder, "opt", "p.py", "-o", "o.py", "--executor", executor, "--timeout", "60")
    assert (status, error, (folder / "o.py").read_text()) == (0, "", RESULT)


@pytest.mark.slow
def test_worker_processes_read_and_write_its_files(program: Path, folder: Path) -> None:
    (folder / "many").mkdir()
    for number in range(70):
        (folder / f"many/{number}.py").write_text(PROGRAM)
    status, out, error = run(program, folder, "opt", "many", "-o", "out")
    assert (status, error) == (0, "")
    assert out.splitlines()[-1].startswith("70 of 70 models written")
    assert {path.read_text() for path in (folder / "out").iterdir()} == {RESULT}


@pytest.mark.slow
def test_journal_and_cache_work_on_it(program: Path, folder: Path) -> None:
    arguments = ("opt", "p.py", "-o", "o.py", "--journal", "j", "--cache", "c.db", "--output-format", "json", "-q")
    first, second = (json.loads(run(program, folder, *arguments)[1]) for _ in range(2))
    assert (first["outcome"], second["outcome"]) == ("changed", "earlier")
    (folder / "j").unlink()
    third = json.loads(run(program, folder, *arguments)[1])
    assert (third["outcome"], (folder / "o.py").read_text()) == ("changed", RESULT)


@pytest.mark.slow
def test_report_and_dumps_show_it(program: Path, folder: Path) -> None:
    arguments = ("opt", "p.py", "-o", "o.py", "--report", "r.html", "--dump-ir", "dumps", "--print-changed")
    status, out, _ = run(program, folder, *arguments)
    assert (status, (folder / "r.html").stat().st_size > 10_000) == (0, True)
    assert "-    assert x" in out
    assert any(path.suffix == ".py" or path.is_file() for path in (folder / "dumps").rglob("*"))


@pytest.mark.slow
def test_plan_and_passes_know_it(program: Path, folder: Path) -> None:
    planned = "run    sequential\nrun      python.FoldConstants\nrun      python.RemoveAsserts\n"
    assert run(program, folder, "plan", "p.py") == (
        0,
        f"py: python.FoldConstants,python.RemoveAsserts\n{planned}",
        "",
    )
    status, out, error = run(program, folder, "passes", "python.*", "--output-format", "json")
    assert (status, error) == (0, "")
    assert [item["name"] for item in map(json.loads, out.splitlines())] == [
        "python.Fail",
        "python.FoldConstants",
        "python.RemoveAsserts",
    ]


@pytest.mark.slow
def test_bisect_finds_its_pass(program: Path, folder: Path) -> None:
    status, out, error = run(program, folder, "bisect", "p.py", "--check", "grep -q assert")
    assert (status, error) == (0, "")
    assert "the first bad pass is (2) python.RemoveAsserts at p.py" in out


@pytest.mark.slow
def test_failure_is_replayed_and_reduced(program: Path, folder: Path) -> None:
    status, out, _ = run(program, folder, "opt", "p.py", "-p", "python.Fail", "--reproducer", "found")
    found = "found/p.py/0_python.Fail"
    assert (folder / found / "module.py").is_file()
    assert (status, out.splitlines()[-1]) == (1, f"to reproduce: apass replay {found}")
    status, out, error = run(program, folder, "replay", found)
    assert (status, out.splitlines()[-1].endswith("fails the same way"), error) == (1, True, "")
    status, out, error = run(program, folder, "reduce", found)
    assert (status, error) == (0, "")
    reduced = next(path for path in (folder / found / "reduced").iterdir() if path.name.startswith("module"))
    assert reduced.read_text() == "import os\n\ndef f(x):\n    assert x\n    return x * (2 + 3)\nprint(f(2))"


@pytest.mark.slow
def test_pipelines_are_compared_on_it(program: Path, folder: Path) -> None:
    arguments = ("opt", "p.py", "--compare", "python.FoldConstants", "python.RemoveAsserts")
    status, out, error = run(program, folder, *arguments)
    assert (status, error) == (0, "")
    assert "p.py" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise SystemExit(4)", "AdapterError: the IR plug-in exited with 4 while reading a.ir"),
        ("return None", "AdapterError: a.ir: load of the IR plug-in returned NoneType, expected Program"),
        ("raise OSError('on fire')", "InputError: cannot read a.ir: on fire"),
    ],
)
def test_failing_reader_fails_its_model_only(tmp_path: Path, body: str, message: str) -> None:
    (tmp_path / "ir.py").write_text(
        "import apass\nclass Program(dict): pass\n"
        "class Adapter(apass.plugins.BaseAdapter[Program, str]):\n"
        "    def functions(self, mod): return mod.items()\n"
        "    def replace(self, mod, updates): return Program({**mod, **updates})\n"
        "def load(path):\n"
        f"    if path.name == 'a.ir': {body}\n"
        "    return Program(f=path.read_text())\n"
        "def save(mod, path): path.write_text(mod['f'])\n"
        "apass.register_plugin(apass.IRPlugin(adapter=Adapter(), module_type=Program, "
        "suffixes=('.ir',), load=load, save=save))\n"
    )
    for name in ("a", "b"):
        (tmp_path / f"{name}.ir").write_text("text")
    arguments = ("--load", "./ir.py", "opt", "a.ir", "b.ir", "-p", "PrintIR", "-o", "out")
    status, out, _ = run(Path(sys.executable), tmp_path, *arguments, PYTHONPATH=str(ROOT))
    assert (status, (tmp_path / "out/b.ir").read_text()) == (1, "text")
    assert f"failed a.ir: {message}" in out
