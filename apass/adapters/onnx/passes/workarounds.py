"""Workarounds for errors in onnx_ir's passes.

A guard changes the private copy of a model before a pass runs, and returns a function that undoes the change.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final, cast

import onnx_ir as ir

from apass.adapters.onnx.rewrites import FusePass, SimplifyPass
from apass.adapters.onnx.traversal import all_graphs, nested_graphs

__all__ = [
    "CHANGES_INTERFACE",
    "DRY_RUNS",
    "GUARDS",
    "MAY_BREAK_RULES",
    "NEEDS",
    "SKIP",
    "UNREPORTED",
    "Undo",
    "cause_of",
    "is_incomparable",
    "keep_output_types",
    "pin",
]

SKIP: Final = "SkipOptimization"
"""The mark in `metadata_props`, which passes must keep."""

Undo = Callable[[], bool]
"""Undoes the change of a guard, on the same objects; returns whether the model has still changed."""

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
"""Passes that can return an invalid model for a valid one. Their results are verified."""

_PINNED: Final = "apass.pinned"
_ONNX_DOMAINS: Final = frozenset({"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
_DROPOUT_TRAINING_INPUT: Final = 2
_SMALL: Final = 1000
"""Maximum size in bytes of initializers that onnx_ir passes on to the checker and to shape inference."""


def pin(nodes: Iterable[ir.Node]) -> Undo:
    """Move each node to a unique domain, so that a pass does not recognize it."""
    domains = [(node, node.domain) for node in nodes]
    for index, (node, _) in enumerate(domains):
        node.domain = f"{_PINNED}.{index}"
    return partial(_set_domains, domains)


def _set_domains(domains: list[tuple[ir.Node, str]]) -> bool:
    for node, domain in domains:
        node.domain = domain
    return False


def _pin_identities(model: ir.Model) -> Undo:
    """Keep the Identity nodes that IdentityElimination must not remove.

    The pass gives the operand the name of the graph output that it replaces. This works for one output of each value.
    It fails if the value is already an output, or belongs to another graph.
    """
    return pin([node for graph in all_graphs(model) for node in _needed_identities(graph)])


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
    """Return the first value of a chain of Identity nodes."""
    while True:
        value = node.inputs[0]
        assert value is not None
        producer = value.producer()
        if producer is None or not _is_identity(producer):
            return value
        node = producer


def _pin_incomparable(model: ir.Model) -> Undo:
    """Keep nodes that look equal to CommonSubexpressionElimination, but may differ."""
    return pin([node for node in model.graph if is_incomparable(node)])


def is_incomparable(node: ir.Node) -> bool:
    """Return whether the result of a node may differ from that of an equal node."""
    # Operators of other domains may have state. Bernoulli is missing in onnx_ir's list of random operators.
    if node.domain not in _ONNX_DOMAINS or node.op_type == "Bernoulli":
        return True
    # Dropout is random if its training input is set.
    if node.op_type == "Dropout" and len(node.inputs) > _DROPOUT_TRAINING_INPUT:
        return True
    # The remaining node may lack an optional output that the other has. Attributes 0.0 and -0.0 compare equal.
    return any(not output.name for output in node.outputs) or any(map(_has_negative_zero, node.attributes.values()))


def _has_negative_zero(attr: ir.Attr) -> bool:
    if attr.type not in (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS) or attr.value is None:
        return False
    value = cast("float | tuple[float, ...]", attr.value)
    numbers = value if isinstance(value, tuple) else (value,)
    return any(number == 0 and math.copysign(1, number) < 0 for number in numbers)


def _separate_outputs(model: ir.Model) -> Undo:
    """Insert an Identity for outputs of functions that are inputs or other outputs."""
    # Inline would rename the value in the caller, so that the model's inputs and outputs lose their names.
    inserted = False
    for function in model.functions.values():
        graph = function.graph
        for index, output in enumerate(graph.outputs):
            if output.is_graph_input() or output in graph.outputs[:index]:
                node = ir.node("Identity", inputs=[output])
                node.outputs[0].type, node.outputs[0].shape = output.type, output.shape
                graph.append(node)
                graph.outputs[index] = node.outputs[0]
                inserted = True
    return lambda: inserted


def _set_versions(model: ir.Model) -> Undo:
    """Set the operator set version of each node in a function."""
    # Without a version on the node, AddDefaultAttributes uses the operator sets of the model, not of the function.
    nodes = [(node, function) for function in model.functions.values() for node in function.all_nodes()]
    for node, function in nodes:
        node.version = function.opset_imports.get(node.domain)
    return partial(_clear_versions, [node for node, _ in nodes])


def _clear_versions(nodes: list[ir.Node]) -> bool:
    for node in nodes:
        node.version = None
    return False


def _keep_subgraph_inputs(model: ir.Model) -> Undo:
    """Keep the inputs of subgraphs, whose number the operator determines."""
    inputs = [(graph, list(graph.inputs)) for graph in nested_graphs(model.graph)[1:]]
    return partial(_set_inputs, inputs)


def _set_inputs(inputs: list[tuple[ir.Graph, list[ir.Value]]]) -> bool:
    for graph, values in inputs:
        graph.inputs.clear()
        graph.inputs.extend(values)
    return False


def _read_external(model: ir.Model) -> Undo:
    """Read external data into memory.

    onnx would look for its files in the working directory. Large initializers of the main graph are skipped, because
    onnx_ir does not pass their data to onnx.
    """
    for graph in all_graphs(model):
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and (tensor.nbytes <= _SMALL or graph is not model.graph):
                value.const_value = _in_memory(tensor)
        for node in graph:
            _read_external_attributes(node)
    # How the data of a tensor is stored is no part of the contents of a model.
    return _is_unchanged


def _read_external_attributes(node: ir.Node) -> None:
    for name, attr in list(node.attributes.items()):
        if attr.type is ir.AttributeType.TENSOR and isinstance(attr.value, ir.ExternalTensor):
            node.attributes[name] = ir.AttrTensor(name, _in_memory(attr.value), doc_string=attr.doc_string)


def _in_memory(tensor: ir.ExternalTensor) -> ir.TensorProtocol:
    names: dict[str, Any] = {"name": tensor.name, "doc_string": tensor.doc_string}
    return ir.Tensor(tensor.numpy(), tensor.dtype, metadata_props=dict(tensor.metadata_props), **names)


def keep_output_types(model: ir.Model) -> Undo:
    """Keep the types of outputs that a pass replaces by values without types."""
    types = [(value.type, value.shape) for value in model.graph.outputs]
    return partial(_set_types, model.graph, types)


def _set_types(graph: ir.Graph, types: list[tuple[ir.TypeProtocol | None, ir.Shape | None]]) -> bool:
    for value, (tp, shape) in zip(graph.outputs, types, strict=False):
        value.type = value.type or tp
        value.shape = value.shape if value.shape is not None else shape
    return False


def _is_unchanged() -> bool:
    return False


def _remove_inner_initializers(model: ir.Model) -> Undo:
    """Remove the unused initializers of subgraphs, which the pass keeps."""

    def remove() -> bool:
        unused = [(graph, value) for graph in all_graphs(model) for value in _unused_initializers(graph)]
        for graph, value in unused:
            graph.initializers.pop(value.name or "")
        return bool(unused)

    return remove


def _unused_initializers(graph: ir.Graph) -> list[ir.Value]:
    values = graph.initializers.values()
    return [value for value in values if not (value.uses() or value.is_graph_output() or value.is_graph_input())]


GUARDS: Final[Mapping[str, Callable[[ir.Model], Undo]]] = {
    "AddDefaultAttributes": _set_versions,
    "AddInitializersToInputs": _keep_subgraph_inputs,
    "Checker": _read_external,
    "CommonSubexpressionElimination": _pin_incomparable,
    "IdentityElimination": _pin_identities,
    "Inline": _separate_outputs,
    "RemoveInitializersFromInputs": _keep_subgraph_inputs,
    "RemoveUnusedNodes": _remove_inner_initializers,
    "ShapeInference": _read_external,
}
"""Guards by the name of the pass. Each runs on the private copy before the pass; the result is called after it."""


def _has_functions(model: ir.Model) -> bool:
    return bool(model.functions)


def _has_identities(model: ir.Model) -> bool:
    return any(node.op_type == "Identity" for graph in all_graphs(model) for node in graph)


def _has_similar_initializers(model: ir.Model) -> bool:
    # Types and shapes only: the pass compares the data.
    return any(_has_duplicates(map(_kind, graph.initializers.data.values())) for graph in all_graphs(model))


def _kind(value: ir.Value) -> object:
    tensor = value.const_value
    return value if tensor is None else (tensor.dtype, tuple(tensor.shape))


def _has_duplicates(keys: Iterable[object]) -> bool:
    seen: set[object] = set()
    for key in keys:
        if key in seen:
            return True
        seen.add(key)
    return False


def _has_similar_nodes(model: ir.Model) -> bool:
    # Operators and operands only: attributes are compared by the pass.
    return _has_duplicates((node.op_type, *map(id, node.inputs)) for node in model.graph)


def _imports_unused(model: ir.Model) -> bool:
    calls = {function.domain for function in model.functions.values()}
    return _imports_more(model.graph, calls) or any(_imports_more(func, set()) for func in model.functions.values())


def _imports_more(owner: ir.Graph | ir.Function, used: set[str]) -> bool:
    unknown = owner.opset_imports.keys() - used - {""}
    # Nearly all models import ONNX only, so that their nodes are not looked at.
    return bool(unknown) and not unknown <= {node.domain for node in owner.all_nodes()}


def _has_unused(model: ir.Model) -> bool:
    return any(
        _unused_initializers(graph) or any(_is_in_question(node) for node in graph) for graph in all_graphs(model)
    )


def _is_in_question(node: ir.Node) -> bool:
    """Return whether RemoveUnusedNodes may change a node or its inputs and outputs."""
    if any(not (output.uses() or output.is_graph_output()) for output in node.outputs):
        return True
    if node.inputs and node.inputs[-1] is None:
        return True
    return node.op_type == "BatchNormalization" and "training_mode" in node.attributes


def _has_constants(model: ir.Model) -> bool:
    return any(node.op_type == "Constant" for graph in all_graphs(model) for node in graph)


def _has_inner_initializers(model: ir.Model) -> bool:
    return any(graph.initializers for graph in nested_graphs(model.graph)[1:])


def _has_notes(model: ir.Model) -> bool:
    """Return whether nodes or graphs have doc strings, or metadata besides the mark."""
    graphs = [graph for graph in all_graphs(model) if len(graph)]
    return any(graph.doc_string or graph.metadata_props.keys() - {SKIP} for graph in graphs) or any(
        node.doc_string or node.metadata_props for node in chain.from_iterable(graphs)
    )


def _has_initializers_outside_inputs(model: ir.Model) -> bool:
    return any(not value.is_graph_input() for value in model.graph.initializers.values())


def _has_initializers_in_inputs(model: ir.Model) -> bool:
    return any(value.is_graph_input() for value in model.graph.initializers.values())


DRY_RUNS: Final[Mapping[str, Callable[[ir.Model], bool]]] = {
    "FuseNodes": FusePass().may_change,
    "Simplify": SimplifyPass().may_change,
}
"""The conditions of `NEEDS` that take as long as a pass."""

NEEDS: Final[Mapping[str, Callable[[ir.Model], bool]]] = {
    "AddInitializersToInputs": _has_initializers_outside_inputs,
    "ClearMetadataAndDocString": _has_notes,
    "CommonSubexpressionElimination": _has_similar_nodes,
    "DeduplicateHashedInitializers": _has_similar_initializers,
    "DeduplicateInitializers": _has_similar_initializers,
    "IdentityElimination": _has_identities,
    "Inline": _has_functions,
    "LiftConstantsToInitializers": _has_constants,
    "LiftSubgraphInitializersToMainGraph": _has_inner_initializers,
    "RemoveInitializersFromInputs": _has_initializers_in_inputs,
    "RemoveUnusedFunctions": _has_functions,
    "RemoveUnusedNodes": _has_unused,
    "RemoveUnusedOpsets": _imports_unused,
    **DRY_RUNS,
}
"""Conditions for a pass to have any effect. They are checked first, because copying a model is slower."""


def _arity(model: ir.Model) -> object:
    """Return what RemoveUnusedNodes changes in nodes that it keeps."""
    return [
        (len(node.inputs), [output.name for output in node.outputs], len(node.attributes))
        for graph in all_graphs(model)
        for node in graph
    ]


UNREPORTED: Final[Mapping[str, Callable[[ir.Model], object]]] = {
    "ClearMetadataAndDocString": _has_notes,
    "RemoveUnusedNodes": _arity,
}
"""Passes whose `PassResult.modified` can be false although they changed the model.

The function returns a value that differs then. These are the passes of onnx_ir 1.1.0 that do so, not reported upstream
as of November 2026:

- ClearMetadataAndDocString does not count the doc strings of nodes.
- RemoveUnusedNodes does not count optional outputs, trailing inputs and attributes.
"""


def cause_of(error: Exception) -> Exception:
    """Return the original error.

    onnx_ir wraps an error once for each level of nesting.
    """
    while isinstance(error.__cause__, Exception) and _is_wrapper(error):
        error = error.__cause__
    return error


def _is_wrapper(error: Any) -> bool:
    if isinstance(error, ir.passes.PassError | ir.passes.InvariantError | ir.serde.SerdeError):
        return True
    # The cloner of onnx_ir raises RuntimeError("In ...") with the text of all its arguments.
    return type(error) is RuntimeError and str(error).startswith("In ")
