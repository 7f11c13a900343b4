"""Models whose subgraphs use the names of outer values."""

from typing import Any

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array

import apass
from apass.adapters.onnx import ADAPTER, model_from_bytes
from tests.helpers.amounts import amount
from tests.helpers.onnx_models import onnxruntime_session

NAMES = ["a", "b", "c", "d"]
SIDES = ["then", "else"]
UNARY = ["Abs", "Exp", "Identity", "Neg", "Relu"]


def info(name: str, shape: tuple[int, ...] = (2,), kind: int = onnx.TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return make_tensor_value_info(name, kind, shape)


@st.composite
def graphs(draw: st.DrawFn, output: str, visible: tuple[str, ...] = ()) -> onnx.GraphProto:
    """Draw a graph with one output.

    In a subgraph, for which `visible` has the outer values, names may be those of outer values.
    """
    defined = draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))
    numbers = st.lists(st.sampled_from([0.0, -0.0, 1.5, -2.0]), min_size=2, max_size=2)
    tensors = [from_array(np.array(draw(numbers), np.float32), name) for name in defined]
    inputs: list[onnx.ValueInfoProto] = []
    if not visible:
        inputs = [info("x"), info("flag", (), onnx.TensorProto.BOOL)]
        tensors.append(from_array(np.array(draw(st.booleans())), "always"))
    known = [*visible, "x", *defined]
    nodes: list[onnx.NodeProto] = []
    free = [name for name in NAMES if name not in defined]
    for name in [*draw(st.permutations(free))[: draw(st.integers(0, 3))], output]:
        kind = draw(st.sampled_from(["unary", "binary", "branch"] if len(output) < 3 else ["unary", "binary"]))
        if kind == "branch":
            branches: Any = {f"{side}_branch": draw(graphs(f"{output}{side[0]}{name}", tuple(known))) for side in SIDES}
            nodes.append(make_node("If", [draw(st.sampled_from(["flag", "always"]))], [name], **branches))
        elif kind == "binary":
            operands = draw(st.lists(st.sampled_from(known), min_size=2, max_size=2))
            nodes.append(make_node(draw(st.sampled_from(["Add", "Mul", "Max"])), operands, [name]))
        else:
            nodes.append(make_node(draw(st.sampled_from(UNARY)), [draw(st.sampled_from(known))], [name]))
        known.append(name)
    return make_graph(nodes, f"g{output}", inputs, [info(output)], tensors)


def outputs(model: bytes) -> list[Any] | None:
    """Return the outputs in onnxruntime for both flags; None if it rejects the model."""
    try:
        session = onnxruntime_session(model)
    except Exception:
        return None
    x = np.array([-0.0, 3.0], np.float32)
    return [session.run(None, {"x": x, "flag": np.array(flag)})[0].tobytes() for flag in (False, True)]


@settings(deadline=None, max_examples=amount(400))
@given(graphs("y"))
def test_colliding_names_are_rejected_or_keep_results(graph: onnx.GraphProto) -> None:
    proto = make_model(graph, ir_version=10, opset_imports=[make_opsetid("", 21)])
    data = proto.SerializeToString()
    before = outputs(data)
    try:
        model = model_from_bytes(data)
    except apass.errors.AdapterError:
        return
    result = apass.run("onnx.Default", model, context=apass.PassContext(opt_level=2))
    if before is not None:
        assert outputs(ADAPTER.dumps(result)) == before
