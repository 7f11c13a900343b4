"""The example over the corpus of ONNX models: a real part of it, and what it says when a pass changes a meaning."""

import io
from pathlib import Path

import anyio
import onnx_ir as ir
import pytest
from rich.console import Console

import apass
from apass.adapters.onnx import ADAPTER, private_copy
from apass.adapters.onnx.outputs import evaluate, random_inputs
from examples.optimize_onnx_corpus import (
    DATA,
    Case,
    Report,
    count_nodes,
    load_cases,
    load_heavy_case,
    main,
    optimize_corpus,
    show,
)
from tests.adapters.onnx.models import model_of, spread


def printed(report: Report) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_part_of_the_corpus_keeps_its_meaning(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--part", "25", "--backend", backend, "--jobs", "2"])
    written, errors = capfd.readouterr()
    assert (status, errors) == (0, "")
    assert "26 models in one event loop" in written
    assert written.rstrip().endswith("0 changed meanings")


def test_the_whole_corpus_is_two_thousand_models_and_a_part_is_spread_over_it() -> None:
    names = [case.name for case in load_cases(100)]
    assert len(names) == 101
    assert names[-1] == "light/light_squeezenet"
    assert {name.partition("/")[0] for name in names} >= {"light", "pytorch-converted", "pytorch-operator"}
    assert len({*DATA.glob("*/*/model.onnx"), *(DATA / "light").glob("*.onnx")}) == 149


@apass.module_pass(opt_level=0)
def ReluToAbs(mod: ir.Model, ctx: apass.PassContext) -> ir.Model:
    """Change a meaning."""
    graph = private_copy(mod.graph)
    for node in graph:
        node.op_type = "Abs" if node.op_type == "Relu" else node.op_type
    return ADAPTER.replace(mod, {"main": graph})


@apass.module_pass(opt_level=0)
def FailOnNeg(mod: ir.Model, ctx: apass.PassContext) -> ir.Model:
    """Fail on some models."""
    if any(node.op_type == "Neg" for node in mod.graph):
        raise ValueError("there is a Neg")
    return mod


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_changed_meaning_and_a_failed_pass_are_told(backend: str) -> None:
    cases = [
        Case(f"uses {op}", "own", model_of(f"g (float[4] a) => (float[4] x) {{ x = {op}(a) }}"), [(None, None)])
        for op in ("Relu", "Neg", "Exp")
    ]
    pipeline = apass.Sequential([ReluToAbs, FailOnNeg])
    report = anyio.run(optimize_corpus, cases, pipeline, 1, 300.0, backend=backend)
    text = printed(report)
    assert report.exit_status() == 1
    assert [one.case.name for one in report.changed()] == ["uses Relu"]
    assert "changed: uses Relu: different: output 'x' differs by up to" in text
    assert "failed: uses Neg: ValueError: there is a Neg (in pass 'sequential > FailOnNeg', module '1')" in text
    assert "0 changed meanings" not in text


def test_big_networks_have_weights_that_show_in_their_outputs() -> None:
    one, again = (load_heavy_case(DATA / "light" / "light_shufflenet.onnx") for _ in range(2))
    assert ADAPTER.equal(one.model, again.model)
    ADAPTER.verify(one.model)
    drawn = [node for node in one.model.graph if node.op_type == "RandomUniform"]
    assert len(drawn) == 243
    assert count_nodes(one.model) == 446
    seeds = {node.attributes["seed"].value for node in drawn}
    assert len(seeds) == len(drawn)


def test_the_data_of_a_case_gives_the_outputs_that_it_says() -> None:
    case = next(case for case in spread() if case.source == "pytorch-operator")
    inputs, right = case.data[0]
    assert inputs is not None
    assert right is not None
    outputs = evaluate(ADAPTER.dumps(case.model), inputs).outputs
    assert outputs is not None
    assert abs(outputs[0] - right[0]).max() < 1e-5
    assert random_inputs(ADAPTER.dumps(case.model)).keys() <= {value.name for value in case.model.graph.inputs}
    assert Path(DATA / case.name / "model.onnx").exists()
