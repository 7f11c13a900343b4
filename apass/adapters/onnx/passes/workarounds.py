"""What onnx_ir's passes get wrong, each kept from it by a change to the private copy before, undone after the pass."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

import onnx_ir as ir

__all__ = ["CHANGES_INTERFACE", "GUARDS", "MAY_BREAK_RULES", "NEEDS", "Undo", "cause_of", "keep_output_types"]

Undo = Callable[[], None]
"""Undoes what a guard did, on the same objects."""

CHANGES_INTERFACE: Final = frozenset(
    {"AddInitializersToInputs", "NameFix", "OutputFix", "RemoveInitializersFromInputs"}
)
"""Passes that may change the names of the model's inputs and outputs."""

MAY_BREAK_RULES: Final = frozenset(
    {
        "AddInitializersToInputs",
        "Inline",
        "LiftConstantsToInitializers",
        "LiftSubgraphInitializersToMainGraph",
        "OutputFix",
        "RemoveInitializersFromInputs",
    }
)
"""Passes whose result is checked, for they make models that are not valid of some that are."""

_PINNED: Final = "apass.pinned"
_ONNX_DOMAINS: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
_DROPOUT_TRAINING_INPUT: Final = 2
_SMALL: Final = 1000
"""Bytes of an initializer up to which onnx_ir gives its data to the checker and to shape inference."""


def _graphs(model: ir.Model) -> Iterator[ir.Graph]:
    for owner in (model.graph, *(function.graph for function in model.functions.values())):
        yield owner
        yield from owner.subgraphs()


def _pin(nodes: Iterable[ir.Node]) -> Undo:
    """Move each node to a domain of its own for a time, so that a pass takes it for what it does not know."""
    domains = [(node, node.domain) for node in nodes]
    for index, (node, _) in enumerate(domains):
        node.domain = f"{_PINNED}.{index}"
    return partial(_set_domains, domains)


def _set_domains(domains: list[tuple[ir.Node, str]]) -> None:
    for node, domain in domains:
        node.domain = domain


def _pin_identities(model: ir.Model) -> Undo:
    """Keep the Identity nodes that IdentityElimination cannot take out without harm.

    It names the value that goes in like the output of the graph that comes out, so a value can stand for one output
    only, and for none if it is an output already, or comes from another graph.
    """
    return _pin([node for graph in _graphs(model) for node in _needed_identities(graph)])


def _needed_identities(graph: ir.Graph) -> list[ir.Node]:
    needed: list[ir.Node] = []
    renamed: set[ir.Value] = set()
    for node in graph:
        if _is_identity(node) and node.outputs[0].is_graph_output():
            origin = _origin(node)
            if origin in renamed or origin.graph is not graph or origin.is_graph_output():
                needed.append(node)
            renamed.add(origin)
    return needed


def _is_identity(node: ir.Node) -> bool:
    return node.op_type == "Identity" and node.domain == "" and len(node.inputs) == 1 and node.inputs[0] is not None


def _origin(node: ir.Node) -> ir.Value:
    """Return the value that a chain of Identity nodes begins with."""
    while True:
        value = node.inputs[0]
        assert value is not None
        producer = value.producer()
        if producer is None or not _is_identity(producer):
            return value
        node = producer


def _pin_incomparable(model: ir.Model) -> Undo:
    """Keep CommonSubexpressionElimination from nodes that look the same and may not compute the same."""
    return _pin([node for node in model.graph if _is_incomparable(node)])


def _is_incomparable(node: ir.Node) -> bool:
    if node.domain not in _ONNX_DOMAINS or node.op_type == "Bernoulli":
        return True
    if node.op_type == "Dropout" and len(node.inputs) > _DROPOUT_TRAINING_INPUT:
        return True
    # The one that stays may lack an output that the other has; and 0.0 == -0.0.
    return any(not output.name for output in node.outputs) or any(map(_has_negative_zero, node.attributes.values()))


def _has_negative_zero(attr: ir.Attr) -> bool:
    if attr.type not in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS) or attr.value is None:
        return False
    value = cast("float | tuple[float, ...]", attr.value)
    many = value if isinstance(value, tuple) else (value,)
    return any(one == 0 and math.copysign(1, one) < 0 for one in many)


def _separate_outputs(model: ir.Model) -> Undo:
    """Give each output of a function a node of its own, for Inline renames what a function merely passes on."""
    for function in model.functions.values():
        graph = function.graph
        for index, output in enumerate(graph.outputs):
            if output.is_graph_input() or output in graph.outputs[:index]:
                node = ir.node("Identity", inputs=[output])
                node.outputs[0].type, node.outputs[0].shape = output.type, output.shape
                graph.append(node)
                graph.outputs[index] = node.outputs[0]
    return _nothing


def _note_versions(model: ir.Model) -> Undo:
    """Have AddDefaultAttributes look nodes of a function up in the operator sets of the function, not the model's."""
    nodes = [(node, function) for function in model.functions.values() for node in function.all_nodes()]
    for node, function in nodes:
        node.version = function.opset_imports.get(node.domain)
    return partial(_forget_versions, [node for node, _ in nodes])


def _forget_versions(nodes: list[ir.Node]) -> None:
    for node in nodes:
        node.version = None


def _keep_subgraph_inputs(model: ir.Model) -> Undo:
    """Leave the inputs of subgraphs alone: the operator says how many there are."""
    inputs = [(graph, list(graph.inputs)) for graph in model.graph.subgraphs()]
    return partial(_set_inputs, inputs)


def _set_inputs(inputs: list[tuple[ir.Graph, list[ir.Value]]]) -> None:
    for graph, values in inputs:
        graph.inputs.clear()
        graph.inputs.extend(values)


def _read_external(model: ir.Model) -> Undo:
    """Read into memory what onnx would look for in the working directory: all external data that it is given.

    It is not given the data of the big initializers of the main graph.
    """
    for graph in _graphs(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and (tensor.nbytes <= _SMALL or graph is not model.graph):
                value.const_value = _in_memory(tensor)
        for node in graph:
            _read_external_attributes(node)
    return _nothing


def _read_external_attributes(node: ir.Node) -> None:
    for name, attr in list(node.attributes.items()):
        if attr.type is ir.AttributeType.TENSOR and isinstance(attr.value, ir.ExternalTensor):
            node.attributes[name] = ir.AttrTensor(name, _in_memory(attr.value), doc_string=attr.doc_string)


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    own: dict[str, Any] = {"name": tensor.name, "doc_string": tensor.doc_string}
    return ir.Tensor(tensor.numpy(), tensor.dtype, metadata_props=dict(tensor.metadata_props), **own)


def keep_output_types(model: ir.Model) -> Undo:
    """Have the outputs keep their types, where a pass puts values in their places that have none."""
    known = [(value.type, value.shape) for value in model.graph.outputs]
    return partial(_set_types, model.graph, known)


def _set_types(graph: ir.Graph, known: list[tuple[ir.TypeProtocol | None, ir.Shape | None]]) -> None:
    for value, (tp, shape) in zip(graph.outputs, known, strict=False):
        value.type = value.type or tp
        value.shape = value.shape if value.shape is not None else shape


def _nothing() -> None:
    return None


GUARDS: Final[Mapping[str, Callable[[ir.Model], Undo]]] = {
    "AddDefaultAttributes": _note_versions,
    "AddInitializersToInputs": _keep_subgraph_inputs,
    "Checker": _read_external,
    "CommonSubexpressionElimination": _pin_incomparable,
    "IdentityElimination": _pin_identities,
    "Inline": _separate_outputs,
    "RemoveInitializersFromInputs": _keep_subgraph_inputs,
    "ShapeInference": _read_external,
}
"""What is done to the private copy before a pass runs on it; what each returns is called after it."""


def _has_functions(model: ir.Model) -> bool:
    return bool(model.functions)


def _has_identities(model: ir.Model) -> bool:
    return any(node.op_type == "Identity" for graph in _graphs(model) for node in graph)


def _has_many_initializers(model: ir.Model) -> bool:
    return any(len(graph.initializers) > 1 for graph in model.graphs())


def _has_twins(model: ir.Model) -> bool:
    seen = {(node.op_type, *map(id, node.inputs)) for node in model.graph}
    return len(seen) < len(model.graph)


def _imports_more_than_onnx(model: ir.Model) -> bool:
    return any(model.opset_imports) or any(any(function.opset_imports) for function in model.functions.values())


NEEDS: Final[Mapping[str, Callable[[ir.Model], bool]]] = {
    "CommonSubexpressionElimination": _has_twins,
    "DeduplicateHashedInitializers": _has_many_initializers,
    "DeduplicateInitializers": _has_many_initializers,
    "IdentityElimination": _has_identities,
    "Inline": _has_functions,
    "RemoveUnusedFunctions": _has_functions,
    "RemoveUnusedOpsets": _imports_more_than_onnx,
}
"""What a model must have for a pass to find anything to do: looked at first, for it is cheaper than a copy."""


def cause_of(error: Exception) -> Exception:
    """Return what went wrong, without the errors that onnx_ir wraps it in, one for each level of nesting."""
    while isinstance(error.__cause__, Exception) and _is_wrapper(error):
        error = error.__cause__
    return error


def _is_wrapper(error: Any) -> bool:
    if isinstance(error, ir.passes.PassError | ir.passes.InvariantError | ir.serde.SerdeError):
        return True
    # What its cloner raises, with the text of all it was given.
    return type(error) is RuntimeError and str(error).startswith("In ")
