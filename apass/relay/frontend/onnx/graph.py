"""`GraphImporter`: translates the nodes of graphs and functions in order."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

import onnx
from onnx import AttributeProto

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.convert import find_converter
from apass.relay.frontend.onnx.coverage import FunctionKey, Functions, check_supported, function_key
from apass.relay.frontend.onnx.facts import Facts, Source
from apass.relay.frontend.onnx.functions import Body, body_of, schema_of
from apass.relay.frontend.onnx.node import Node
from apass.relay.frontend.onnx.protos import (
    attribute_value,
    attributes_of,
    dense_value,
    normal_domain,
    subgraphs_of,
    tensor_value,
)
from apass.relay.frontend.onnx.scope import ValueScope
from apass.relay.ir.expr import Call, Constant, Expr, TupleGetItem
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["MOST_INLINED_NODES", "GraphImporter"]

FOLD_LIMIT: Final = 4096
"""The largest number of elements of a computed constant.

Computations on constants of at most this size are replaced by their results. Vectors of dimensions are small, so all
shape computations are covered.
"""


MOST_INLINED_NODES: Final = "max_inlined_nodes"
"""The option for the maximum number of nodes of inlined functions."""

Inputs: TypeAlias = tuple[Expr | None, ...]
"""The inputs of a node; None for an omitted input."""
Outputs: TypeAlias = Sequence[Expr | None]
"""The outputs of a node; None for an omitted output."""


class GraphImporter:
    """Translates the nodes of one model."""

    def __init__(self, facts: Facts, functions: Iterable[onnx.FunctionProto], config: Mapping[str, object]) -> None:
        self.facts: Final = facts
        """Types and values of the translated expressions."""
        self.functions: Final[Functions] = {function_key(function): function for function in functions}
        """The model-local functions."""
        self._config = config
        self._open: set[FunctionKey] = set()
        self._inlined = 0

    def run(self, nodes: Sequence[onnx.NodeProto], results: Iterable[str], scope: ValueScope) -> None:
        """Translate nodes and add their outputs to the scope.

        Parameters:
            nodes: the nodes, in topological order.
            results: the names of the outputs that are used.
            scope: the scope to read inputs from and to add outputs to.

        Raises:
            OpNotImplementedError: if a node cannot be translated.

        """
        walk_deep(self._run(nodes, tuple(results), scope))

    def _run(self, nodes: Sequence[onnx.NodeProto], results: Sequence[str], scope: ValueScope) -> Walk[Outputs]:
        """Translate nodes. It is a walk, because functions may nest to any depth."""
        used = {*results, *_used_names(nodes)}
        for node in nodes:
            try:
                yield self._add(node, used, scope)
            except Exception as error:
                error.add_note(f"in node {_name(node)!r} ({node.op_type}) of the ONNX model")
                raise
        # A function body need not produce results that the caller does not use.
        return [scope.values.get(name) for name in results]

    def _add(self, node: onnx.NodeProto, used: Set[str], scope: ValueScope) -> Walk[Outputs]:
        self._count(node)
        inputs = tuple(scope[name] for name in node.input)
        used_outputs = tuple(name if name in used else "" for name in node.output)
        outputs = yield self._translate(node, inputs, used_outputs, scope)
        if any(used_outputs[len(outputs) :]):
            raise _error(node, f"from_onnx supports only its first {len(outputs)} outputs")
        for output in outputs:
            # Infer the type now, so that the note on a type error names this node.
            self._type(output)
        may_fold = not any(isinstance(value, Expr) and not isinstance(value, Constant) for value in inputs)
        values = [self._fold(output) for output in outputs] if may_fold else outputs
        scope.values.update((name, value) for name, value in zip(node.output, values, strict=False) if name)
        return outputs

    def _count(self, node: onnx.NodeProto) -> None:
        """Count a node of an inlined function.

        Each call inlines a function again, so n functions that call the next one twice have 2**n nodes.
        """
        limit = self._config[MOST_INLINED_NODES]
        self._inlined += bool(self._open)
        if isinstance(limit, int) and self._inlined > limit:
            raise _error(
                node,
                f"the functions of the model have more than {limit} nodes if inlined; raise the limit with "
                f"from_onnx(..., convert_config={{{MOST_INLINED_NODES!r}: ...}})",
            )

    def _translate(
        self, node: onnx.NodeProto, inputs: Inputs, used: tuple[str, ...], scope: ValueScope
    ) -> Walk[Outputs]:
        attributes = attributes_of(node, scope.attributes)
        key = function_key(node)
        if key in self.functions:
            return (yield self._call(key, attributes, inputs, scope))
        version = scope.opsets.get(key[0], 1)
        converter = find_converter(key[0], node.op_type, version)
        if converter is not None:
            result = converter(self._node(node, inputs, used, attributes, scope))
            return [result] if isinstance(result, Expr) else result
        schema = schema_of(node.op_type, key[0], version)
        body = None if schema is None else body_of(schema, node, version, attributes, map(self._type, inputs))
        if body is None:
            raise _error(node, "from_onnx does not support this operator")
        check_supported(body.nodes, {**scope.opsets, **body.opsets}, self.functions)
        return (yield self._inline(body, inputs, scope))

    def _call(
        self, key: FunctionKey, attributes: Mapping[str, AttributeProto], inputs: Inputs, scope: ValueScope
    ) -> Walk[Outputs]:
        """Return the results of a model-local function."""
        if key in self._open:
            raise ValueError(f"cannot inline function {key[1]!r} of the ONNX model: it is recursive")
        self._open.add(key)
        results = yield self._inline(Body.of(self.functions[key], attributes), inputs, scope)
        self._open.remove(key)
        return results

    def _type(self, expr: Expr | None) -> TensorType | None:
        ty = None if expr is None else self.facts.type_of(expr)
        return ty if isinstance(ty, TensorType) else None

    def _node(
        self,
        node: onnx.NodeProto,
        inputs: Inputs,
        used: tuple[str, ...],
        attributes: Mapping[str, AttributeProto],
        scope: ValueScope,
    ) -> Node:
        """Return the `Node` that is passed to a converter."""
        values = {name: attribute_value(attribute) for name, attribute in attributes.items()}
        return Node(
            op_type=node.op_type,
            version=scope.opsets.get(normal_domain(node.domain), 1),
            name=_name(node),
            inputs=inputs,
            outputs=used,
            attributes={name: value for name, value in values.items() if value is not None},
            subgraphs={name: InnerGraph(self, graph, scope) for name, graph in subgraphs_of(node)},
            facts=self.facts,
            config=self._config,
        )

    def _inline(self, body: Body, inputs: Inputs, outer: ValueScope) -> Walk[Outputs]:
        """Translate the body of a function for one call and return the results."""
        # Some of ONNX's own function bodies do not import the default domain: inherit the outer versions.
        scope = ValueScope({**outer.opsets, **body.opsets}, body.attributes)
        padded = (*inputs, *[None] * (len(body.inputs) - len(inputs)))
        scope.values.update(zip(body.inputs, padded, strict=True))
        return self._run(body.nodes, body.outputs, scope)

    def _fold(self, expr: Expr | None) -> Expr | None:
        """Return the result of a small computation on constants as a constant."""
        if not isinstance(expr, Call | TupleGetItem) or self.facts.source_of(expr) is not Source.CONSTANT:
            return expr
        ty = self.facts.type_of(expr)
        if not isinstance(ty, TensorType) or not ty.is_static or math.prod(ty.concrete_shape) > FOLD_LIMIT:
            return expr
        value = self.facts.value_of(expr)
        return expr if value is None or isinstance(value, tuple) else Constant(value)


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A graph that is an attribute of a node.

    A call translates it, with expressions for its inputs.
    """

    importer: GraphImporter
    """The importer that translates it."""
    graph: onnx.GraphProto
    """The graph."""
    outer: ValueScope
    """The scope of the enclosing graph, whose names are visible."""

    def __call__(self, *inputs: Expr) -> list[Expr]:
        """Return the outputs."""
        scope = self.outer.inner()
        scope.values.update(zip((info.name for info in self.graph.input), inputs, strict=True))
        scope.values.update((name, Constant(value)) for name, value in _initializers(self.graph))
        self.importer.run(self.graph.node, (info.name for info in self.graph.output), scope)
        outputs = (scope[info.name] for info in self.graph.output)
        return [output for output in outputs if output is not None]


def _initializers(graph: onnx.GraphProto) -> Iterable[tuple[str, Array]]:
    yield from ((tensor.name, tensor_value(tensor)) for tensor in graph.initializer)
    yield from ((tensor.values.name, dense_value(tensor)) for tensor in graph.sparse_initializer)


def _used_names(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Iterate over the names that nodes and their subgraphs use."""
    for node in nodes:
        yield from node.input
        for _, graph in subgraphs_of(node):
            yield from (info.name for info in graph.output)
            yield from _used_names(graph.node)


def _name(node: onnx.NodeProto) -> str:
    return node.name or next(iter(node.output), "")


def _error(node: onnx.NodeProto, reason: str) -> OpNotImplementedError:
    return OpNotImplementedError(f"cannot import node {_name(node)!r} ({node.op_type}): {reason}")
