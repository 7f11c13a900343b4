"""Passes of the user on the command line: `--load`, `APASS_LOAD`, settings."""

import json
import os
from pathlib import Path

import pytest

from apass.adapters.onnx import load_model
from tests.helpers.command_line import nodes_of, write_model
from tests.helpers.command_line import run_in as run

pytestmark = pytest.mark.process

PASSES = """
import apass
import neighbour

@apass.register_pass("my.Keep")
@apass.module_pass(opt_level=1)
def Keep(mod, ctx):
    "Keep the module."
    neighbour.note(mod)
    return mod

@apass.register_pass("my.Both")
@apass.module_pass(opt_level=1)
async def Both(mod, ctx):
    return await apass.get_pass("onnx.IdentityElimination")(await Keep(mod))

@apass.register_pass("my.Fail")
@apass.module_pass(opt_level=1)
def Fail(mod, ctx):
    raise ValueError("too hard")

@apass.module_pass(opt_level=1)
def Forgotten(mod, ctx):
    return mod
"""
NEIGHBOUR = "def note(mod): pass\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mypasses.py").write_text(PASSES)
    (tmp_path / "neighbour.py").write_text(NEIGHBOUR)
    write_model(tmp_path / "model.onnx")
    return tmp_path


PLANNED = (0, "run    sequential\nrun      my.Keep\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--load", "mypasses.py", "plan", "-p", "my.Keep"),
        ("plan", "-p", "my.Keep", "--load", "./mypasses.py"),
        ("--load", "neighbour", "plan", "--load=mypasses", "-p", "my.Keep"),
    ],
)
def test_option_is_read_before_and_after_command(folder: Path, arguments: tuple[str, ...]) -> None:
    assert run(folder, *arguments) == PLANNED


def test_variable_names_modules(folder: Path) -> None:
    paths = os.pathsep.join(["neighbour.py", "mypasses.py"])
    assert run(folder, "plan", "-p", "my.Keep", APASS_LOAD=paths) == PLANNED


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("apass.toml", 'load = ["mypasses.py"]'),
        ("pyproject.toml", '[project]\nname = "x"\n[tool.apass]\nload = ["mypasses"]'),
        ("pyproject.toml", '[tool]\napass = {load = ["mypasses.py"]}'),
    ],
)
def test_settings_are_found_upwards(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    (folder / "a" / "pyproject.toml").write_text('[project]\nname = "another, not of apass"\n')
    assert run(below, "plan", "-p", "my.Keep") == PLANNED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('laod = ["x.py"]', "{path} has the unknown setting 'laod' of apass; did you mean 'load'?"),
        ('load = "x.py"', "{path}: load must be a list of files and modules, got 'x.py'"),
        ("load = [3]", "{path}: load must be a list of files and modules, but contains 3"),
        ("load = [", "cannot read {path}: Invalid value (at end of document)"),
        ('load = ["x.py"]', "cannot load 'x.py': no such file"),
    ],
)
def test_invalid_settings_are_an_error(folder: Path, text: str, message: str) -> None:
    (folder / "apass.toml").write_text(text)
    expected = f"apass: {message.format(path=folder / 'apass.toml')}\n"
    assert run(folder, "plan", "-p", "my.Keep") == (2, "", expected)
    assert run(folder, "plan", "--help")[0] == 0


def test_settings_have_defaults_of_options(folder: Path) -> None:
    text = """load = ["mypasses.py"]
    [plan]
    pipeline = "my.Keep"
    opt-level = 2
    disable = ["FoldConstant"]
    [opt]
    quiet = true
    """
    (folder / "apass.toml").write_text(text)
    write_model(folder / "m.onnx")
    assert run(folder, "plan") == PLANNED
    assert "FoldConstant" in run(folder, "plan", "-p", "FoldConstant")[1]  # an option wins
    assert run(folder, "opt", "m.onnx") == (0, "", "")
    for table, message in (
        ("[plan]\npipelin = 'A'", "tool.apass.plan has the unknown option 'pipelin'; did you mean 'pipeline'?"),
        ("[plan]\nload = ['a.py']", "tool.apass.plan has the unknown option 'load'"),
        ("[plan]\ndisable = 'A'", "tool.apass.plan: disable must be a list, got 'A'"),
        ("[opt]\nquiet = 1", "tool.apass.opt: quiet must be true or false, got 1"),
        ("[opt]\njobs = true", "tool.apass.opt: jobs must be a text or a number, got True"),
        ("plan = 3", "tool.apass.plan must be a table of options, got 3"),
    ):
        (folder / "apass.toml").write_text(table)
        expected = f"apass: {folder / 'apass.toml'}: {message}\n"
        assert run(folder, "opt" if "opt" in table else "plan", "m.onnx") == (2, "", expected)
    (folder / "apass.toml").write_text("[opt]\njobs = 0")
    expected = "apass: --jobs must be an integer of at least 1, got 0 in the settings file\n"
    assert run(folder, "opt", "m.onnx") == (2, "", expected)
    assert run(folder, "opt", "m.onnx", "-j", "1")[0] == 0


def test_file_of_package_is_imported_as_its_part(folder: Path) -> None:
    package = folder / "pack" / "inner"
    package.mkdir(parents=True)
    (folder / "pack" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "shared.py").write_text("")
    (package / "rules.py").write_text("from . import shared\n" + PASSES)
    assert run(folder, "plan", "-p", "my.Keep", "--load", "pack/inner/rules.py") == PLANNED
    assert run(folder, "plan", "-p", "my.Keep", "--load", "pack.inner.rules") == PLANNED


@pytest.mark.parametrize(
    ("name", "text", "source", "message"),
    [
        ("bad.py", "import apass\nx = y\n", "bad.py", "NameError: name 'y' is not defined, at {folder}/bad.py:2"),
        ("bad.py", "def f(:\n", "bad.py", "SyntaxError: invalid syntax (bad.py, line 1)"),
        ("bad.py", "raise SystemExit(3)\n", "bad.py", "SystemExit: 3, at {folder}/bad.py:1"),
        (
            "bad.py",
            "import nowhere\n",
            "bad.py",
            "ModuleNotFoundError: No module named 'nowhere', at {folder}/bad.py:1",
        ),
        ("bad.py", "", "bda.py", "no such file; did you mean 'bad.py'?"),
        ("bad.py", "", "pack.bad", "there is no such module, and no file pack/bad.py"),
        ("a-b.py", "", "a-b.py", "'a-b' is not a name that Python can import; rename the file"),
        ("notes.txt", "", "notes.txt", "expected a Python file (.py), a package or the name of a module"),
        ("json.py", "", "json.py", "Python imports {json} under the name 'json'; rename the file or the package"),
        (
            "sys.py",
            "",
            "sys.py",
            "Python imports a module of Python under the name 'sys'; rename the file or the package",
        ),
    ],
)
def test_module_that_cannot_be_loaded_is_named(folder: Path, name: str, text: str, source: str, message: str) -> None:
    (folder / name).write_text(text)
    reason = message.format(folder=folder, json=json.__file__)
    expected = f"apass: cannot load {source!r}: {reason}\n"
    assert run(folder, "--load", source, "plan", "-p", "my.Keep") == (2, "", expected)


@pytest.mark.slow
def test_unknown_pass_error_names_the_option(folder: Path) -> None:
    _, _, error = run(folder, "plan", "-p", "my.Keep")
    hint = "  a pass of your own needs --load FILE, where FILE registers it with apass.register_pass"
    assert error.splitlines()[-1] == hint
    _, _, error = run(folder, "--load", "mypasses.py", "plan", "-p", "Nothing")
    assert error.splitlines()[-1] == f"{hint} (loaded: mypasses)"
    _, _, error = run(folder, "--load", "mypasses.py", "plan", "-p", "Forgotten")
    register = "  mypasses.Forgotten is a pass, but not registered; put @apass.register_pass above it"
    assert error.splitlines()[-1] == register


def test_documentation_of_own_pass_is_shown(folder: Path) -> None:
    assert run(folder, "--load", "mypasses.py", "passes", "my.Keep") == (
        0,
        "my.Keep  level 1\n    Keep the module.\n",
        "",
    )


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["inline", "process", "thread"])
def test_workers_load_the_same_modules(folder: Path, executor: str) -> None:
    for number in range(4):
        write_model(folder / "models" / f"{number}.onnx")
    arguments = ("opt", "models", "-p", "my.Both", "-o", "out", "--executor", executor)
    status, _, error = run(folder, "--load", "mypasses.py", *arguments)
    assert (status, error) == (0, "")
    assert {tuple(nodes_of(path)) for path in (folder / "out").iterdir()} == {("Relu", "Neg")}


@pytest.mark.slow
def test_reproducer_names_what_to_load(folder: Path) -> None:
    load = ("--load", "mypasses.py")
    status, out, _ = run(folder, *load, "opt", "model.onnx", "-p", "my.Fail", "--reproducer", "found")
    source = folder / "mypasses.py"
    reproduce = f"to reproduce: apass --load {source} replay found/model.onnx/0_my.Fail"
    assert (status, out.splitlines()[-1]) == (1, reproduce)
    assert json.loads((folder / "found/model.onnx/0_my.Fail/reproducer.json").read_text())["loaded"] == [str(source)]
    status, _, error = run(folder, "replay", "found/model.onnx/0_my.Fail")
    assert (status, f"as in `apass --load {source} replay ...`" in error) == (2, True)
    status, out, error = run(folder, *load, "replay", "found/model.onnx/0_my.Fail")
    assert (status, out.splitlines()[-1].endswith("fails the same way"), error) == (1, True, "")
    status, out, error = run(folder, *load, "reduce", "found/model.onnx/0_my.Fail", "--isolate")
    assert (status, error) == (0, "")
    assert out.splitlines()[-1] == f"{reproduce}/reduced"


def test_bisect_loads_modules(folder: Path) -> None:
    status, out, error = run(
        folder, "--load", "mypasses.py", "bisect", "model.onnx", "-p", "my.Keep,my.Both", "--check", "grep -q Identity"
    )
    assert (status, error) == (0, "")
    assert out.splitlines()[-1] == "to stop after this pass: apass opt --opt-bisect-limit 2 ..."


EXTENSION = """
import apass

@apass.register_pass("my.Mark")
@apass.module_pass(opt_level=0)
def Mark(mod, ctx):
    if "mark" in mod.graph.metadata_props:
        return mod
    mod = mod.clone()
    mod.graph.metadata_props["mark"] = "my.Mark"
    return mod

apass.extend_pipeline("onnx.Default", "my.Mark", after="onnx.Inline")
"""


@pytest.mark.slow
def test_loaded_file_extends_default_pipeline(folder: Path) -> None:
    (folder / "extension.py").write_text(EXTENSION)
    write_model(folder / "models" / "b.onnx")
    write_model(folder / "models" / "a.onnx")
    load = ("--load", "extension.py")
    status, planned, _ = run(folder, *load, "plan", "models/a.onnx")
    assert (status, planned.splitlines()[3:5]) == (
        0,
        ["run        onnx.Inline", "run        my.Mark                              added by extension.py"],
    )
    for name, *options in (("processes", "--executor", "process"), ("loop", "--executor", "inline")):
        status, _, errors = run(folder, *load, "opt", "models", "-o", name, *options)
        assert status == 0, errors
        assert [_mark(folder / name / model) for model in ("a.onnx", "b.onnx")] == ["my.Mark"] * 2
    assert run(folder, *load, "opt", "models", "-o", "none", "-p", "onnx.Default{extensions=false}")[0] == 0
    assert _mark(folder / "none" / "a.onnx") is None


def test_journal_and_cache_distinguish_extended_pipeline(folder: Path) -> None:
    (folder / "extension.py").write_text(EXTENSION)
    load, cached = ("--load", "extension.py"), ("model.onnx", "--cache", "cache.sqlite")
    assert run(folder, "opt", *cached, "-o", "plain.onnx", "--journal", "run.journal")[0] == 0
    status, _, errors = run(folder, *load, "opt", *cached, "-o", "plain.onnx", "--journal", "run.journal")
    assert (status, "belongs to another run: pipeline 'Sequential(onnx.Default)'" in errors) == (2, True)
    assert run(folder, *load, "opt", *cached, "-o", "marked.onnx")[0] == 0
    assert [_mark(folder / name) for name in ("plain.onnx", "marked.onnx")] == [None, "my.Mark"]


def _mark(path: Path) -> str | None:
    return load_model(path).graph.metadata_props.get("mark")
