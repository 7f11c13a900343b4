"""Shell completion, and the texts of `--help` that name other things."""

import re

import pytest
from typer.testing import CliRunner

from apass.cli.app import app
from apass.pipelines.parser import parse_pipeline
from tests.helpers.command_line import apass


def completed(*words: str) -> list[str]:
    """Return what bash completes the last of the words to."""
    environment = {"_APASS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return CliRunner().invoke(app, [], prog_name="apass", env=environment).stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("opt", "m", "-p", "onnx.Ide"), ["onnx.IdentityElimination"]),
        (("opt", "m", "-p", "onnx.A,onnx.Ide"), ["onnx.A,onnx.IdentityElimination"]),
        (("opt", "m", "-p", "A,Repeat{times=3}(onnx.Ide"), ["A,Repeat{times=3}(onnx.IdentityElimination"]),
        (("opt", "m", "-p", "'A,Repeat(B,onnx.Ide"), ["A,Repeat(B,onnx.IdentityElimination"]),
        (("opt", "m", "-p", "Repeat{ti"), []),
        (("opt", "m", "-p", "Repeat{times=3,Fast"), []),
        (("opt", "m", "-p", "Repeat(A)Fast"), []),
        (("opt", "m", "--compare", "onnx.Ide"), ["onnx.IdentityElimination"]),
        (("opt", "m", "--disable", "FastM"), ["FastMath"]),
        (("plan", "-p", "FastM"), ["FastMath"]),
        (("plan", "--from", "r"), ["relax", "relay"]),
        (("opt", "--to", ""), ["bc", "json", "ll", "mlir", "mlirbc", "onnx", "relax", "relay"]),
        (("bisect", "m", "--require", "FastM"), ["FastMath"]),
        (("passes", "FastM"), ["FastMath"]),
        (("pa",), ["passes"]),
        (("opt", "m", "--executor", "pr"), ["process"]),
        (("opt", "m", "--executor", ""), ["inline", "thread", "process", "interpreter", "dask"]),
        (("serve", "--executor", ""), ["process", "inline", "dask"]),
        (("opt", "m", "--backend", "t"), ["trio"]),
        (("blame", "m", "--backend", "a"), ["asyncio"]),
        (("opt", "m", "--verify-outputs", "e"), ["end", "each"]),
        (("opt", "m", "--log-level", "d"), ["debug"]),
        (("opt", "m", "--print-ir-after", "FastM"), ["FastMath"]),
        (("opt", "m", "--filter-passes", "FastM"), ["FastMath"]),
        (("opt", "m", "--remarks-kind", "m"), ["missed"]),
    ],
)
def test_completion_has_values_of_options(words: tuple[str, ...], expected: list[str]) -> None:
    assert completed("apass", *words) == expected


@pytest.mark.parametrize("command", ["opt", "plan", "passes", "bisect"])
def test_pipelines_of_examples_can_be_parsed(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, mark, examples = apass(command, "--help").stdout.partition("Example")
    assert (bool(mark), f"apass {command}" in examples) == (True, True)
    for pipeline in re.findall(r"-p '([^']*)'", examples):
        parse_pipeline(pipeline)
