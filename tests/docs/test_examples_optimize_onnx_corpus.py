"""`examples/optimize_onnx_corpus.py`: a part of the corpus, and its report."""

import io
import subprocess
import sys
from pathlib import Path

import anyio
import onnx_ir as ir
import pytest
from rich.console import Console

import apass
from apass.adapters.onnx import ADAPTER, count_nodes, private_copy
from apass.adapters.onnx.outputs import evaluate, random_inputs
from examples.optimize_onnx_corpus import (
    DATA,
    Case,
    Report,
    load_cases,
    load_heavy_case,
    main,
    optimize_corpus,
    show,
)
from tests.helpers.onnx_models import model_of
from tests.helpers.repository import ROOT


def printed(report: Report) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


INTERRUPTED = """
import signal
import sys
import anyio
import examples.optimize_onnx_corpus as example

async def optimize_corpus(*args):
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        signal.raise_signal(signal.SIGINT)

is_loading = "loading" in sys.argv
if is_loading:
    sys.argv.remove("loading")
example.load_cases = lambda count: signal.raise_signal(signal.SIGINT) if is_loading else []
example.optimize_corpus = optimize_corpus
sys.exit(example.main())
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("stage", [["loading"], []], ids=["loading", "running"])
def test_interrupt_is_one_line(backend: str, stage: list[str]) -> None:
    command = [sys.executable, "-c", INTERRUPTED, "--backend", backend, *stage]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "optimize_onnx_corpus.py: interrupted\n")


@pytest.mark.process
@pytest.mark.slow
def test_part_of_corpus_keeps_its_outputs(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--part", "25", "--backend", backend, "--jobs", "2"])
    written, errors = capfd.readouterr()
    assert (status, errors) == (0, "")
    assert "26 models in one event loop" in written
    assert written.rstrip().endswith("0 models with changed outputs")


@pytest.mark.slow
def test_corpus_parts_are_spread_over_all_sources() -> None:
    names = [case.name for case in load_cases(100)]
    assert len(names) == 101
    assert names[-1] == "light/light_squeezenet"
    assert {name.partition("/")[0] for name in names} >= {"light", "pytorch-converted", "pytorch-operator"}
    assert len({*DATA.glob("*/*/model.onnx"), *(DATA / "light").glob("*.onnx")}) == 149


@apass.module_pass(opt_level=0)
def ReluToAbs(mod: ir.Model, ctx: apass.PassContext) -> ir.Model:
    """Change the outputs of a model."""
    graph = private_copy(mod.graph)
    for node in graph:
        node.op_type = "Abs" if node.op_type == "Relu" else node.op_type
    return ADAPTER.replace(mod, {"main": graph})


@apass.module_pass(opt_level=0)
def FailOnNeg(mod: ir.Model, ctx: apass.PassContext) -> ir.Model:
    """Fail on models with a Neg node."""
    if any(node.op_type == "Neg" for node in mod.graph):
        raise ValueError("there is a Neg")
    return mod


@pytest.mark.process
def test_changed_outputs_and_failed_passes_are_reported(backend: str) -> None:
    cases = [
        Case(f"uses {op}", "own", model_of(f"g (float[4] a) => (float[4] x) {{ x = {op}(a) }}"), [(None, None)])
        for op in ("Relu", "Neg", "Exp")
    ]
    pipeline = apass.Sequential([ReluToAbs, FailOnNeg])
    report = anyio.run(optimize_corpus, cases, pipeline, 1, 300.0, backend=backend)
    text = printed(report)
    assert report.exit_status() == 1
    assert [result.case.name for result in report.changed()] == ["uses Relu"]
    assert "changed: uses Relu: different: output 'x' differs by up to" in text
    assert "failed: uses Neg: ValueError: there is a Neg (in pass 'sequential > FailOnNeg', module '1')" in text
    assert "0 models with changed outputs" not in text


def test_big_networks_have_reproducible_random_weights() -> None:
    first, second = (load_heavy_case(DATA / "light" / "light_shufflenet.onnx") for _ in range(2))
    assert ADAPTER.equal(first.model, second.model)
    ADAPTER.verify(first.model)
    random_nodes = [node for node in first.model.graph if node.op_type == "RandomUniform"]
    assert len(random_nodes) == 243
    assert count_nodes(first.model) == 446
    seeds = {node.attributes["seed"].value for node in random_nodes}
    assert len(seeds) == len(random_nodes)


@pytest.mark.slow
def test_data_of_case_gives_expected_outputs() -> None:
    case = next(case for case in load_cases(80) if case.source == "pytorch-operator")
    inputs, expected = case.data[0]
    assert inputs is not None
    assert expected is not None
    outputs = evaluate(ADAPTER.dumps(case.model), inputs).outputs
    assert outputs is not None
    assert abs(outputs[0] - expected[0]).max() < 1e-5
    assert random_inputs(ADAPTER.dumps(case.model)).keys() <= {value.name for value in case.model.graph.inputs}
    assert Path(DATA / case.name / "model.onnx").exists()
