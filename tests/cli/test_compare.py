"""`apass opt --compare`: tables, errors, arguments, and no written result."""

import re
import signal
from pathlib import Path

import pytest

from apass.cli.compare import ORIGINAL
from tests.helpers.command_line import apass, program, script, write_model
from tests.helpers.folders import files

pytestmark = pytest.mark.process


def rows_of(text: str, pipeline: str) -> list[list[str]]:
    """Return the cells of the rows of a pipeline, one row for each table."""
    lines = (line.strip() for line in text.splitlines())
    return [re.split(r"\s{2,}", line)[1:] for line in lines if line.startswith(pipeline + " ")]


def test_table_shows_each_pipeline_of_each_model(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "a.onnx")
    write_model(tmp_path / "b.onnx", identities=4)
    pipelines = ["onnx.Default", "onnx.Checker", "ort.Basic"]
    result = apass("opt", tmp_path, "--compare", *pipelines, "-j", 1, "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    assert files(tmp_path) == ["a.onnx", "b.onnx"]
    assert [row[0] for row in rows_of(result.stdout, ORIGINAL)] == ["4", "6", "10"]
    assert [row[0] for row in rows_of(result.stdout, "onnx.Default")] == ["2", "2", "4"]
    assert [row[3] for row in rows_of(result.stdout, "onnx.Default")] == ["equal", "equal", "2 equal"]
    assert [row[3] for row in rows_of(result.stdout, "onnx.Checker")] == ["unchanged", "unchanged", "2 equal"]
    assert all(re.fullmatch(r"\d+\.\d{3} ms|x \d\.\d\d", row[2]) for row in rows_of(result.stdout, "ort.Basic"))
    assert result.stdout.endswith("2 of 2 models compared, no result written\n")


def test_failed_pipeline_does_not_stop_others(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    (tmp_path / "b.onnx").write_bytes(b"no model")
    pipelines = ["--compare=onnxscript.Rewrite{rules=[nothing]}", "--compare=onnx.Default"]
    result = apass("opt", tmp_path, *pipelines)
    assert result.exit_code == 1
    assert re.search(
        r"failed onnxscript.Rewrite\{.*\}: in pass .*\n    AdapterError: onnxscript has no rewrite rule", result.stdout
    )
    assert rows_of(result.stdout, "onnx.Default")[0][0] == "2"
    assert rows_of(result.stdout, "onnxscript.Rewrite{rules=[nothing]}")[-1][-1] == "1 failed"
    assert "failed the model: AdapterError:" in result.stdout


def test_models_without_measures_have_bytes(tmp_path: Path) -> None:
    program(tmp_path / "p.relay")
    result = apass("opt", tmp_path, "--compare", "FoldConstant", "EliminateCommonSubexpr")
    assert result.exit_code == 0
    assert [row[0] for row in rows_of(result.stdout, ORIGINAL)] == ["4", "4"]
    assert [row[0] for row in rows_of(result.stdout, "FoldConstant")] == ["3", "3"]
    assert int(rows_of(result.stdout, "FoldConstant")[0][1]) < int(rows_of(result.stdout, ORIGINAL)[0][1])


def test_misuse_is_reported_before_the_run(tmp_path: Path) -> None:
    model = write_model(tmp_path / "a.onnx")
    for arguments, text in (
        (["--compare", "onnx.Default", "-p", "onnx.Inline"], "--pipeline cannot be used with --compare"),
        (["--compare", "onnx.Default", "--in-place"], "--in-place cannot be used with --compare"),
        (["--compare", "onnx.Default", "--timing"], "--timing cannot be used with --compare"),
        (["--compare", "onnx.Default", "onnx.Default"], "has the pipeline 'onnx.Default' twice"),
        (["--compare", "onnx.Nothing"], "no pass is registered under the name 'onnx.Nothing'"),
        (["--compare", "-j", "2"], "the pipeline is empty"),
        (["--compare", " "], "the pipeline is empty"),
    ):
        result = apass("opt", model, *arguments)
        assert (result.exit_code, text in result.stderr) == (2, True), (arguments, result.stderr)


HOLD_PASS = """
import anyio
from apass.core.run import current_module_name
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass

@register_pass
@module_pass(opt_level=0, name="Hold")
async def hold(mod, ctx):
    if current_module_name() == "b.onnx":
        print("holding", flush=True)
        await anyio.sleep_forever()
    return mod
"""


@pytest.mark.slow
def test_interrupt_prints_totals_of_finished_models(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "a.onnx")
    write_model(tmp_path / "b.onnx")
    with script(HOLD_PASS, ("opt", tmp_path, "--compare", "Hold", "-j", 1, "--backend", backend)) as running:
        lines = iter(running.stdout.readline, "holding\n")
        assert "a.onnx\n" in list(lines)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=300)
    assert running.returncode == 130
    assert out.splitlines()[-1] == "1 of 2 models compared, no result written, 1 not done"


def test_converted_model_has_the_measures_of_its_ir(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "--compare", "onnx.Default", "tvm.FromONNX")
    assert result.exit_code == 0, result.output
    assert "ms" in rows_of(result.stdout, ORIGINAL)[0][2]
    _, *cells = rows_of(result.stdout, "tvm.FromONNX")[0]
    assert (cells[0].isdecimal(), cells[1][:14]) == (True, "not verified: ")
