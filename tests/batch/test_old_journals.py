"""Journals written by revision 29831d6 are still read.

The classes of modules have moved since. `optimize_all({name: mod}, pass_, journal=...)` wrote them, with a pass that
changed the module. The key in the journal for ONNX was replaced since, because the fingerprint of models has changed.
"""

from pathlib import Path
from shutil import copy
from typing import Any

import onnx_ir
import pytest
from onnx import TensorProto, helper

import apass
from apass import relay
from apass.adapters.onnx.passes import OnnxPass

DATA = Path(__file__).parent / "data"
TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { add(%x, multiply(2f, 3f)) }'

pytestmark = pytest.mark.anyio


def onnx_model() -> onnx_ir.Model:
    """Return the model that the journal was written for."""
    nodes = [helper.make_node("Identity", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18)]
    return onnx_ir.serde.deserialize_model(helper.make_model(graph, opset_imports=opsets, ir_version=8))


@pytest.mark.parametrize(
    ("name", "mod", "pipeline"),
    [("relay", relay.parse(TEXT), "FoldConstant"), ("onnx", onnx_model(), "onnx.IdentityElimination")],
    ids=["relay", "onnx"],
)
async def test_old_journal_supplies_the_result(
    name: str, mod: Any, pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A journal belongs to the libraries that it was written with.
    monkeypatch.setattr(OnnxPass, "version", "onnx 1.23.2, onnx-ir 1.1.0")
    path = Path(copy(DATA / f"{name}.journal", tmp_path))
    async with apass.optimize_stream({name: mod}, apass.parse_pipeline(pipeline), journal=path) as outcomes:
        (outcome,) = [outcome async for outcome in outcomes]
    fresh: Any = await apass.parse_pipeline(pipeline)(mod)
    assert (outcome.resumed, outcome.error) == (True, None)
    assert apass.adapter_for(fresh).equal(outcome.module, fresh)
