"""Limits of passes whose work can be exponential in the size of a model.

A model of a few hundred bytes can have calls of functions, or values of shapes, that expand to more than any memory.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import onnx_ir as ir

from apass.adapters.onnx.calls import MAX_EXPANDED, expanded_nodes
from apass.adapters.onnx.validation import quoted
from apass.errors import AdapterError

__all__ = ["LIMITS", "limited_options"]

LIMITS: Final[Mapping[str, Mapping[str, int]]] = {
    "Inline": {"max_nodes": MAX_EXPANDED},
    "ShapeInference": {"max_nodes": MAX_EXPANDED, "max_propagated": 2**20},
}
"""The limits of passes by name, without `onnx.`: options with default values, which the classes of onnx_ir lack.

- `max_nodes`: maximum number of nodes in the bodies of functions, counted once for each call.
- `max_propagated`: maximum number of elements of a value that shape inference computes.
"""

_UNKNOWN: Final = 2**62
"""The number of elements of a value whose size is not known."""

_LONGEST_SHAPE: Final = 64
"""The assumed number of dimensions of a tensor of unknown rank; numpy supports no more."""

_PLAIN: Final = frozenset({ir.AttributeType[name] for name in ("INT", "INTS", "FLOAT", "FLOATS", "STRINGS")})
"""The types of attributes by which a Constant node can give its value, besides a tensor and a string."""

_GROWING: Final = frozenset({"Concat", "Range"})
"""Operators whose result can be larger than their operands."""


def limited_options(name: str, model: ir.Model, options: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the options for the class of onnx_ir, and warnings.

    Parameters:
        name: the name of the pass, without `onnx.`.
        model: the model that the pass will run on.
        options: the options of the pass, which may include limits.

    Raises:
        AdapterError: if the calls of functions exceed `max_nodes`, or form a cycle.

    """
    limits = LIMITS.get(name, {})
    result = {key: value for key, value in options.items() if key not in limits}
    values = {key: options.get(key, default) for key, default in limits.items()}
    if "max_nodes" in values and result.get("criteria") is None:
        _check_calls(name, model, values["max_nodes"])
    if "max_propagated" in values and result.get("data_prop", True):
        limit = values["max_propagated"]
        if _propagated_elements(model) > limit:
            result["data_prop"] = False
            text = "Range and Concat could compute values of more elements than max_propagated"
            return result, [f"data propagation is off: {text} ({limit:,}); raise this option to turn it on"]
    return result, []


def _check_calls(name: str, model: ir.Model, limit: int) -> None:
    count = expanded_nodes(model)
    if count > limit:
        shown = f"{count:,}" if count < _UNKNOWN else f"about 2^{count.bit_length() - 1}"
        raise AdapterError(
            f"the calls of functions in graph {quoted(model.graph.name or '')} expand to {shown} nodes, but "
            f"onnx.{name} allows {limit:,}; raise its option max_nodes, or disable the pass"
        )


def _propagated_elements(model: ir.Model) -> int:
    """Return an upper bound of the elements of a value that is propagated."""
    if any(node.op_type in _GROWING for func in model.functions.values() for node in func.all_nodes()):
        return _UNKNOWN
    counts: dict[ir.Value, int] = {}
    for node in model.graph.all_nodes():
        # The bound doubles with each Concat of a value with itself, so cap it.
        count = min(_elements(node, counts), _UNKNOWN)
        counts.update(dict.fromkeys(node.outputs, count))
    return max((counts[node.outputs[0]] for node in model.graph.all_nodes() if node.op_type in _GROWING), default=0)


def _elements(node: ir.Node, counts: Mapping[ir.Value, int]) -> int:
    """Return an upper bound of the elements of the result of a node."""
    inputs = [value for value in node.inputs if value is not None]
    match node.op_type:
        case "Constant":
            tensor = _constant(node.outputs[0])
            return _UNKNOWN if tensor is None else int(tensor.size)
        case "Shape":
            return _LONGEST_SHAPE
        case "Range":
            return _range_length([_constant(value) for value in inputs])
        case operator:
            sizes = [counts[value] if value in counts else _initializer_size(value) for value in inputs]
            return sum(sizes) if operator == "Concat" else max(sizes, default=0)


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    """Return the tensor of an initializer or of a Constant node, or None."""
    # Not `ir.convenience.get_const_tensor`: it renames the tensor, which is a change of the input model.
    if value.const_value is not None:
        return value.const_value
    node = value.producer()
    if node is None or (node.domain, node.op_type) != ("", "Constant") or len(node.attributes) != 1:
        return None
    attribute = next(iter(node.attributes.values()))
    if attribute.is_ref():
        return None
    if attribute.type is ir.AttributeType.TENSOR:
        return attribute.as_tensor()
    if attribute.type is ir.AttributeType.STRING:
        return ir.tensor([attribute.value])
    return ir.tensor(attribute.value) if attribute.type in _PLAIN else None


def _initializer_size(value: ir.Value) -> int:
    return 0 if value.const_value is None else int(value.const_value.size)


def _range_length(bounds: list[ir.TensorProtocol | None]) -> int:
    numbers: list[float] = [tensor.numpy().item() for tensor in bounds if tensor is not None and tensor.size == 1]
    try:
        start, limit, delta = numbers
        return max(math.ceil((limit - start) / delta), 0)
    except (ValueError, ArithmeticError, TypeError):
        return _UNKNOWN
