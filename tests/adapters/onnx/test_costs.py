"""Costs of ONNX models, and a Race that uses them."""

import anyio
import pytest

import apass
from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.costs import compare_latency, count_bytes, count_nodes, latency, measure_latencies
from apass.core.named_callables import find_callable
from apass.pipelines.parser import parse_pipeline
from tests.helpers.onnx_models import chain, model_of, op_types, relu, with_functions

IDENTITIES = "g (float[4] a) => (float[4] x) { y = Identity(a) z = Identity(y) x = Relu(z) }"


def test_costs_are_registered_by_name() -> None:
    named = {"onnx.latency": latency, "onnx.nodes": count_nodes, "onnx.bytes": count_bytes}
    assert {name: find_callable(name) for name in named} == named


def test_nodes_and_bytes_are_counted() -> None:
    model = with_functions()
    assert count_nodes(model) == 5
    assert anyio.run(count_bytes, model) == len(ADAPTER.dumps(model))


def test_race_takes_the_result_with_fewest_nodes() -> None:
    pipeline = parse_pipeline("Race{key=onnx.nodes}(onnx.Checker,onnx.IdentityElimination)")
    assert str(pipeline) == "Race{key=onnx.nodes}(onnx.Checker,onnx.IdentityElimination)"
    assert op_types(apass.run(pipeline, model_of(IDENTITIES))) == ["Relu"]


@pytest.mark.process
def test_latencies_are_measured_in_a_process(backend: str) -> None:
    async def main() -> list[float | str]:
        return await measure_latencies([relu(), model_of("g (float[N, 4] a) => (float[N, 4] x) { x = my.Op(a) }")])

    short, unsupported = anyio.run(main, backend=backend)
    assert isinstance(short, float)
    assert short > 0
    assert isinstance(unsupported, str)
    assert unsupported


@pytest.mark.process
def test_unsupported_model_has_no_latency() -> None:
    model = model_of("g (float[4] a) => (float[4] x) { x = my.Op(a) }")
    with pytest.raises(apass.errors.AdapterError, match=r"^onnxruntime cannot run the model: "):
        anyio.run(latency, model)


@pytest.mark.process
def test_huge_inputs_have_no_latency() -> None:
    model = model_of("g (float[100000, 100000] a) => (float[100000, 100000] x) { x = Relu(a) }")
    with pytest.raises(apass.errors.AdapterError, match=r"latency cannot be measured: input 'a' has the shape"):
        anyio.run(latency, model)


@pytest.mark.process
def test_race_measures_latencies() -> None:
    text = "Race{key=onnx.latency}(onnx.IdentityElimination,onnx.Checker)"
    result = apass.run(parse_pipeline(text), chain(300))
    assert op_types(result) == ["Relu"] * 300


@pytest.mark.process
@pytest.mark.slow
def test_few_runs_of_a_slow_model_decide() -> None:
    square = "float[1800, 1800]"
    slow = model_of(f"g ({square} a) => ({square} x) {{ b = MatMul(a, a) c = MatMul(b, a) x = MatMul(c, a) }}")
    fast = model_of(f"g ({square} a) => ({square} x) {{ x = Relu(a) }}")
    times = anyio.run(compare_latency, slow, fast)
    assert times.rounds >= 6
    assert times.verdict == "faster"
