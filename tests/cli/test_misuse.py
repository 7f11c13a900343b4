"""Wrong arguments: one line, exit status 2, and nothing is written."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apass.cli.app import app
from apass.core.config import register_config_option
from tests.helpers.command_line import LOAD_HINT, SUFFIXES, apass, fresh_process, write_model
from tests.helpers.folders import files

SEARCHED = SUFFIXES.replace(" .json,", "")
"""The suffixes that a folder is searched for."""
NO_PASS = "no pass is registered under the name 'onnx.Inlin'"
NO_OPTION = "pass 'onnx.Inline' has no option 'x'; it takes criteria, max_nodes"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.onx"], "no such file or directory: 'm.onx'; did you mean 'm.onnx'?"),
        (["empty"], f"no model ({SEARCHED}) found in 'empty'"),
        (["*.pb"], f"no model ({SEARCHED}) found in '*.pb'"),
        (
            ["a.txt"],
            f"model file a.txt has the suffix '.txt'; expected one of {SUFFIXES}",
        ),
        (
            ["m.onnx", "-p", "onnx.Inlin"],
            f"{NO_PASS}; did you mean 'onnx.Inline'? (at character 0)\n    onnx.Inlin\n    ^",
        ),
        (
            ["m.onnx", "-p", "onnx.Inline{x=1}"],
            f"{NO_OPTION} (at character 12)\n    onnx.Inline{{x=1}}\n                ^",
        ),
        (
            ["m.onnx", "--disable", "onnx.Inlin"],
            "--disable: no pass is named 'onnx.Inlin'; did you mean 'onnx.Inline'?",
        ),
        (
            ["m.onnx", "--require", "onnx.Inlin"],
            "--require: no pass is named 'onnx.Inlin'; did you mean 'onnx.Inline'?",
        ),
        (["m.onnx", "--config", "depth"], "--config must be KEY=VALUE, got 'depth'"),
        (["m.onnx", "--backend", "trioo"], "--backend must be asyncio or trio, got 'trioo'; did you mean 'trio'?"),
        (["m.onnx", "-o", "a.txt/out"], "cannot write to a.txt/out: Not a directory"),
        (["m.onnx", "-o", "."], "the result of m.onnx would overwrite m.onnx; use another -o, or --in-place"),
        (
            ["m.onnx", "m.opt.onnx"],
            "the result of m.onnx would overwrite m.opt.onnx; use another -o, or --in-place",
        ),
        (
            ["m.onnx", "--journal", "j", "--opt-bisect-limit", "1"],
            "--journal cannot be used with --opt-bisect-limit: it would record results of a part of the pipeline",
        ),
        (
            ["m.onnx", "--journal", "j", "--opt-bisect", "1-2"],
            "--journal cannot be used with --opt-bisect: it would record results of a part of the pipeline",
        ),
        (
            ["m.onnx", "-o", "x.onxx"],
            "-o x.onxx has the suffix of no model; did you mean '.onnx'? for a folder, create it first",
        ),
        (["m.onnx", "--in-place", "-o", "out"], "--in-place and -o cannot be used together"),
    ],
)
def test_misuse_is_reported_before_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    for name in ("m.onnx", "m.opt.onnx"):
        write_model(tmp_path / name)
    (tmp_path / "a.txt").touch()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    result = apass("opt", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")
    assert files(tmp_path) == ["a.txt", "m.onnx", "m.opt.onnx"]


def test_load_hint_needs_name_without_suggestion(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    for arguments in (["-p", "Qqqqqq"], ["--disable", "Qqqqqq"], ["-p", "onnx.Qqqqqq"]):
        result = apass("opt", model, *arguments)
        assert (result.exit_code, result.stderr.endswith(LOAD_HINT)) == (2, True), result.stderr


def test_suggestion_keeps_the_prefix_of_a_pass(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    for name in ("onnx.Xyz", "onnx.FoldConstan"):
        for option in ("-p", "--disable"):
            message = apass("opt", model, option, name).stderr
            names = re.findall(r"\b[\w.]+\.\w+", message.partition(name)[2].partition(" more")[0])
            assert (len(names) > 0, [name for name in names if not name.startswith("onnx.")]) == (True, []), message


def test_two_results_with_one_target_are_rejected(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    link = tmp_path / "l.onnx"
    link.symlink_to(model)
    result = apass("opt", model, link, "--in-place")
    assert (result.exit_code, result.stderr) == (
        2,
        f"apass: the results of {model} and {link} would both be written to {model.resolve()}; name only one of them\n",
    )


def test_usage_errors_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m.onnx")
    for arguments, message in (
        (["opt", "m.onnx", "--jobs", "0"], "--jobs must be an integer of at least 1, got '0'"),
        (["opt", "m.onnx", "-O", "-1"], "--opt-level must be an integer of at least 0, got '-1'"),
        (["opt", "m.onnx", "--opt-level", "three"], "--opt-level must be an integer of at least 0, got 'three'"),
        (["opt", "m.onnx", "--deadline", "10s"], "--deadline must be a number of seconds, got '10s'"),
        (["opt", "m.onnx", "--timing=jsn"], "--timing must be tree, list or json, got 'jsn'; did you mean 'json'?"),
        (
            ["opt", "m.onnx", "--verify", "alwayz"],
            "--verify must be off, changed or always, got 'alwayz'; did you mean 'always'?",
        ),
        (
            ["opt", "m.onnx", "--verify-outputs", "ech"],
            "--verify-outputs must be off, end, each or prove, got 'ech'; did you mean 'each'?",
        ),
        (["opt", "m.onnx", "--piepline", "A"], "no option is named '--piepline'; did you mean '--pipeline'?"),
        (["opt", "m.onnx", "--qqqqqq"], "no option is named '--qqqqqq'; --help lists all"),
        (["opt", "m.onnx", "-output", "out"], "no option is named '-output'; did you mean '--output'?"),
        (["opt", "m.onnx", "-o=out"], "-o takes its value without '=', got '-o=out'; write -o out"),
        (["opt", "m.onnx", "--report"], "--report needs a value, FILE.html"),
        (["opt", "m.onnx", "--report", "--"], "--report needs a value, FILE.html"),
        (
            ["opt", "m.onnx", "--report", "-o", "x.onnx"],
            "--report needs a value, FILE.html, got the option '-o'; write --report=-o if it is the value",
        ),
        (
            ["opt", "m.onnx", "--report", "-O3"],
            "--report needs a value, FILE.html, got the option '-O3'; write --report=-O3 if it is the value",
        ),
        (["opt", "m.onnx", "--all=yes"], "option '--all' does not take a value"),
        (["opt"], "MODEL is missing; `apass opt -h` shows the usage"),
        (["bisect", "m.onnx"], "--check is missing; `apass bisect -h` shows the usage"),
        (["convert", "a", "b", "c"], "unexpected argument 'c'; `apass convert -h` shows the usage"),
        (["optt"], "no command is named 'optt'; did you mean 'opt'?"),
        (["qqqqqq"], "no command is named 'qqqqqq'; `apass -h` lists all"),
        (["--qqqqqq"], "no option is named '--qqqqqq'; --help lists all"),
        (["cache", "clearr"], "no command is named 'clearr'; did you mean 'clear'?"),
        (["jobs", "list", "--limit", "x"], "--limit must be an integer of at least 1, got 'x'"),
    ):
        result = CliRunner().invoke(app, arguments, prog_name="apass")
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n"), arguments
    assert files(tmp_path) == ["m.onnx"]


def test_value_after_equals_may_look_like_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = apass("opt", write_model(tmp_path / "m.onnx"), "--report=-o", "-o", "x.onnx", "--opt-bisect-limit", "-1")
    assert (result.exit_code, files(tmp_path)) == (0, ["-o", "m.onnx", "x.onnx"])


def test_optional_value_may_follow_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m.onnx")
    assert "waiting ms" in apass("opt", "m.onnx", "-o", "x.onnx", "--timing", "list").stdout
    write_model(tmp_path / "list" / "n.onnx")  # a model may have the name of a value
    result = apass("opt", "m.onnx", "-o", "out", "--timing", "list")
    assert (result.exit_code, files(tmp_path / "out")) == (0, ["list/n.onnx", "m.onnx"])


def test_config_value_of_wrong_type_is_reported(tmp_path: Path) -> None:
    register_config_option("demo.cli.depth", int, default=3)
    register_config_option("demo.cli.depths", list[int])
    for item, message in (
        ("demo.cli.depth=deep", "demo.cli.depth: expected int, got 'deep' (str)"),
        ("demo.cli.depths=3", "demo.cli.depths: expected list[int], got 3 (int)"),
    ):
        result = apass("opt", write_model(tmp_path / "m.onnx"), "--config", item)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: --config {message}\n")


@pytest.mark.parametrize("name", ["FoldConstant", "onnx.Inline"])
def test_disable_and_require_accept_any_registered_pass(tmp_path: Path, name: str) -> None:
    result = apass("opt", write_model(tmp_path / "m.onnx"), "--disable", name, "--require", name)
    assert (result.exit_code, result.stderr) == (0, "")


HIDE = """
import sys
from importlib.abc import MetaPathFinder

class Hide(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hide())
"""


@pytest.mark.process
@pytest.mark.slow
def test_missing_onnx_ir_names_the_extra(tmp_path: Path) -> None:
    code, out, err = fresh_process("opt", write_model(tmp_path / "m.onnx"), body=HIDE.format("onnx_ir"))
    assert (code, out) == (2, "")
    assert re.fullmatch(r"apass: .*No module named 'onnx_ir'.*pip install 'apass\[onnx\]'\n", err)


@pytest.mark.process
@pytest.mark.slow
def test_missing_trio_names_the_extra(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    code, out, err = fresh_process("opt", model, "--backend", "trio", body=HIDE.format("trio"))
    assert (code, out, err) == (
        2,
        "",
        "apass: the event loop 'trio' is not installed (No module named 'trio'): pip install 'apass[trio]'\n",
    )


@pytest.mark.process
@pytest.mark.slow
def test_passes_reports_extra_for_hidden_passes() -> None:
    code, out, err = fresh_process("passes", body=HIDE.format("onnx_ir"))
    shown = out[out.index("onnx.*, onnxoptimizer.*, onnxscript.*, onnxsim.*, onnxslim.*, ort.*\n") :]
    assert (code, err, shown.count("\n"), "pip install 'apass[onnx]'" in shown) == (0, "", 2, True)


def test_model_named_like_an_option_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-dash.onnx", "-o", "m.onnx"):
        write_model(tmp_path / name)
    assert apass("opt", "-dash.onnx").stderr.endswith("; to name the file, write ./-dash.onnx\n")
    assert apass("opt", "./-dash.onnx").exit_code == 0
    assert "to name the file" not in apass("opt", "m.onnx", "-j", "0", "-o", "x.onnx").stderr
