"""Small ONNX models whose results can be recognized."""

import onnx_ir as ir

from apass.adapters.onnx import ADAPTER, count_nodes

__all__ = ["model_of", "number_of"]

MODEL = """
<ir_version: 10, opset_import: ["" : 20]>
agraph (float[{number}] x) => (float[{number}] y) {{
    a = Identity(x)
    y = Relu(a)
}}
"""


def model_of(number: int) -> bytes:
    """Return a model of two nodes, one to be removed, with a number in its shape."""
    return ADAPTER.dumps(ir.from_onnx_text(MODEL.format(number=number + 1)))


def number_of(data: bytes) -> int:
    """Return the number of an optimized model."""
    mod = ADAPTER.loads(data)
    assert count_nodes(mod) == 1
    shape = mod.graph.inputs[0].shape
    assert shape is not None
    return int(str(shape[0])) - 1
