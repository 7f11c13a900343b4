"""`examples/relay_light_models.py`: the quick networks, and reported changes."""

import numpy as np
import pytest

from apass.relay.frontend import from_onnx
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.type_inference.infer import infer_module
from examples import relay_light_models
from examples.relay_light_models import LIGHT, Verdict, draw_inputs, line, load_light_model, main


@pytest.mark.process
@pytest.mark.slow
def test_quick_networks_compute_the_same(
    backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(relay_light_models, "QUICK", ("light_squeezenet",))
    assert main(["--backend", backend]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 networks, 1 with the same outputs, 0 changed"


def test_random_weights_and_inputs_are_reproducible() -> None:
    first, second = (load_light_model(LIGHT / "light_squeezenet.onnx") for _ in range(2))
    assert first == second
    assert all(np.ptp(value) > 0 for value in draw_inputs(first).values())
    assert "ConstantOfShape" not in {node.op_type for node in first.graph.node}


@pytest.mark.slow
def test_networks_are_imported_with_types() -> None:
    skipped = {"light_bvlc_alexnet", "light_vgg19", "light_zfnet512"}  # each has hundreds of megabytes of weights
    for path in sorted(path for path in LIGHT.glob("*.onnx") if path.stem not in skipped):
        mod = infer_module(from_onnx(load_light_model(path), freeze_params=True)[0])
        assert mod["main"].checked_type_ is not None, path.stem


def test_changed_network_is_reported() -> None:
    message = difference(np.zeros(3, np.float32), np.ones(3, np.float32))
    assert line(Verdict("net", 5, 4, message)) == (
        "net                          5 calls,     4 after   "
        "the result differs by up to 1 in 3 of 3 elements, where magnitudes reach 1"
    )
