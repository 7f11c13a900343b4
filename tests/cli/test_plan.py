"""`apass plan`: its output and its error messages."""

import json
from pathlib import Path

import pytest

from apass import register_callable, unregister_callable
from tests.helpers.command_line import SUFFIXES, apass, program, write_model
from tests.helpers.distributions import write_distribution


def test_plan_prints_the_passes_of_a_pipeline() -> None:
    register_callable("cli.is_large", bool)
    try:
        result = apass("plan", "-p", "FoldConstant,If{predicate=cli.is_large}(SimplifyExpr,FastMath)", "-O", 2)
    finally:
        unregister_callable("cli.is_large")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "run    sequential\n"
        "run      FoldConstant\n"
        "run      If{predicate=cli.is_large}  decided at run time by its predicate\n"
        "maybe      InferType                 required by SimplifyExpr; if its predicate holds\n"
        "maybe      SimplifyExpr              if its predicate holds\n"
        "skip       FastMath                  level 4 is above 2\n"
    )


def test_plan_respects_disabled_and_required_passes() -> None:
    result = apass("plan", "-p", "FoldConstant,FastMath", "--disable", "FoldConstant", "--require", "FastMath")
    assert result.stdout.splitlines() == [
        "run    sequential",
        "skip     FoldConstant  disabled",
        "run      InferType     required by FastMath",
        "run      FastMath      required by the context",
    ]


@pytest.fixture
def broken_package(packages: Path) -> None:
    """Install a package whose extensions cannot be imported."""
    write_distribution(packages, "broken", "[apass.pipeline_extensions]\nbroken = no_such_module:EXTENSIONS\n")


@pytest.mark.usefixtures("broken_package")
@pytest.mark.parametrize("command", ["plan", "opt", "passes"])
def test_broken_package_is_one_warning(command: str, tmp_path: Path) -> None:
    files = [write_model(tmp_path / "m.onnx"), "-o", tmp_path / "out.onnx"] if command == "opt" else []
    arguments = ["onnx.Default"] if command == "passes" else ["-p", "onnx.Default,onnx.Default"]
    result = apass(command, *files, *arguments)
    assert result.exit_code == 0
    lines = [line for line in result.stderr.splitlines() if "broken" in line]
    assert len(lines) == 1
    assert lines[0].startswith("apass: warning: no extensions of pipelines are loaded from the entry point ")
    assert lines[0].endswith(" No module named 'no_such_module'; fix or uninstall broken 1.0")


def test_plan_rejects_unknown_pass_names() -> None:
    result = apass("plan", "-p", "FoldConstant", "--disable", "FoldConstat")
    message = "apass: --disable: no pass is named 'FoldConstat'; did you mean 'FoldConstant'?\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


@pytest.mark.parametrize("text", ["", " ", "# nothing\n"])
@pytest.mark.parametrize("command", ["plan", "opt", "bisect"])
def test_empty_pipeline_is_rejected(command: str, text: str, tmp_path: Path) -> None:
    model = [] if command == "plan" else [program(tmp_path / "m.relay")]
    check = ["--check", "true"] if command == "bisect" else []
    result = apass(command, *model, *check, "-p", text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("apass: the pipeline is empty; expected the name of a pass (at character 0)")
    assert not (tmp_path / "m.opt.relay").exists()


def test_plan_without_pipeline_shows_default_pipelines() -> None:
    heads = [line for line in apass("plan").stdout.splitlines() if ":" in line]
    assert [head for head in heads if not head.startswith("mlirbc")] == [
        "bc: llvm.default",
        "ll: llvm.default",
        "mlir: xdsl.Default",
        "onnx: onnx.Default",
        "relax: tvm.Default",
        "relay: relay.Default",
    ]
    relay = apass("plan", "--from", "relay").stdout
    assert (relay.startswith("relay: relay.Default\nrun    sequential\n"), "onnx" in relay) == (True, False)
    assert apass("plan", "m.relay").stdout == relay


def test_plan_is_printed_as_json() -> None:
    result = apass("plan", "-p", "Sequential{name=a},Sequential{name=b,opt_level=3}", "--output-format", "json")
    children: list[dict[str, object]] = [
        {"name": "a", "text": "a", "level": 0, "decision": "run", "reason": "", "passes": []},
        {"name": "b", "text": "b", "level": 3, "decision": "skip", "reason": "level 3 is above 2", "passes": []},
    ]
    assert json.loads(result.stdout) == {
        "format": None,
        "pipeline": "Sequential{name=a},Sequential{name=b,opt_level=3}",
        "plan": {
            "name": "sequential",
            "text": "sequential",
            "level": 0,
            "decision": "run",
            "reason": "",
            "passes": children,
        },
        "error": None,
    }
    formats = [json.loads(line)["format"] for line in apass("plan", "--output-format", "json").stdout.splitlines()]
    assert formats == ["bc", "ll", "mlir", "mlirbc", "onnx", "relax", "relay"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["m.foo"],
            f"model file m.foo has the suffix '.foo'; expected one of {SUFFIXES}",
        ),
        (
            ["--from", "foo"],
            f"--from: no model format is named 'foo'; expected one of {SUFFIXES.replace('.', '')}",
        ),
        (["m.onnx", "--from", "onnx"], "m.onnx and --from onnx both name a format; leave one of them out"),
    ],
)
def test_plan_reports_unknown_formats(arguments: list[str], message: str) -> None:
    result = apass("plan", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")


def test_pipeline_without_passes_is_planned() -> None:
    for pipeline in ("Sequential", "mlir:builtin.module()"):
        assert apass("plan", "-p", pipeline).exit_code == 0
    for pipeline in ("llvm:", " "):
        assert "the pipeline is empty" in apass("plan", "-p", pipeline).stderr
