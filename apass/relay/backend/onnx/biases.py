"""`with_biases`: makes an addition of a constant a bias of the layer before it."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
from onnx import NodeProto

from apass.relay.backend.onnx.graph import GraphBuilder
from apass.relay.backend.onnx.program import used_names

__all__ = ["with_biases"]


def with_biases(builder: GraphBuilder, nodes: Sequence[NodeProto], outputs: Collection[str]) -> list[NodeProto]:
    """Return nodes in which Conv and Gemm add their biases themselves.

    Relay has an operator of its own for each bias. The result has fewer nodes, and each runs as before.
    """
    uses = Counter([*used_names(nodes), *outputs])
    layers = {node.output[0]: node for node in nodes if node.op_type in ("Conv", "Gemm") and len(node.input) == 2}
    result: list[NodeProto] = []
    for node in nodes:
        pair = list(node.input) if node.op_type == "Add" else []
        names = [name for name in pair if name in layers and uses[name] == 1]
        if names:
            layer = layers[names[0]]
            bias = _bias(builder, layer, pair[1 - pair.index(names[0])])
            if bias is not None:
                layer.input.append(bias)
                del layers[names[0]]
                layer.output[0] = node.output[0]
                continue
        result.append(node)
    return result


def _bias(builder: GraphBuilder, layer: NodeProto, name: str) -> str | None:
    """Return a constant as the bias of a layer, or None if it does not fit."""
    values = builder.initializers
    if name not in values or layer.input[1] not in values:
        return None
    value, weight = values[name], values[layer.input[1]]
    is_conv = layer.op_type == "Conv"
    is_transposed = any(attribute.name == "transB" and attribute.i for attribute in layer.attribute)
    size = weight.shape[0 if is_conv or is_transposed else 1]
    expected = (size, *[1] * (weight.ndim - 2)) if is_conv else (size,)
    if value.dtype != weight.dtype or value.shape not in (expected, (1, *expected)):
        return None
    return builder.constant(np.reshape(value, (size,))).name
