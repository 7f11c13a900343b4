"""The light models of onnx through Relay and back, in onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from apass import relay
from apass.adapters.onnx.outputs import evaluate
from apass.relay.frontend import from_onnx
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.transform.default import Default
from apass.relay.transform.support.run_for_tests import run_on
from examples.relay_light_models import LIGHT, QUICK, draw_inputs, load_light_model
from tests.helpers.amounts import some
from tests.relay.backend.round_trips import checker, run_model

# The first have the most nodes and the fewest weights. Sixty million weights take longer than a thousand nodes.
LARGE = sorted((path for path in LIGHT.glob("*.onnx") if path.stem not in QUICK), key=lambda path: -path.stat().st_size)


def assert_equal_after_round_trip(path: Path) -> None:
    original = load_light_model(path)
    feeds = list(draw_inputs(original).values())
    mod, _ = from_onnx(original, freeze_params=True)
    exported: onnx.ModelProto = relay.to_onnx(run_on(Default(), mod))
    checker.check_model(exported, full_check=True)
    outputs = [run_model(model, feeds) for model in (original, exported)]
    assert len(outputs[0]) == len(exported.graph.output)
    assert difference(tuple(outputs[0]), tuple(outputs[1])) == ""
    assert float(np.std(outputs[0][-1].astype("float64"))) > 0


@pytest.mark.parametrize("name", QUICK)
def test_quick_network_is_equal_after_round_trip(name: str) -> None:
    assert_equal_after_round_trip(LIGHT / f"{name}.onnx")


@pytest.mark.parametrize("name", QUICK)
def test_quick_network_is_equal_without_onnxruntime(name: str) -> None:
    original = load_light_model(LIGHT / f"{name}.onnx")
    feeds = draw_inputs(original)
    mod, _ = from_onnx(original, freeze_params=True)
    results = [evaluate(model, feeds) for model in (original, relay.to_onnx(run_on(Default(), mod)))]
    assert [result.error for result in results] == ["", ""]
    before, after = (result.outputs or () for result in results)
    assert difference(before, after) == ""


@pytest.mark.slow
@pytest.mark.parametrize("path", some(LARGE, least=2), ids=lambda path: path.stem)
def test_light_network_is_equal_after_round_trip(path: Path) -> None:
    assert_equal_after_round_trip(path)
