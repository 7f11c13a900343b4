"""`GraphImporter`: translates the nodes of graphs and functions, one after another."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, TypeAlias

import onnx
from onnx import AttributeProto

from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Call, Constant, Expr, TupleGetItem
from apass.relay.frontend.onnx.convert import find_converter
from apass.relay.frontend.onnx.coverage import FunctionKey, Functions, function_key, refuse_unknown
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
from apass.relay.frontend.onnx.scope import Scope
from apass.relay.ir.ndarray import Array
from apass.relay.ty import TensorType
from apass.relay.visitors.recursion import Walk, walk_deep

__all__ = ["GraphImporter"]

FOLD_LIMIT: Final = 4096
"""Outputs of at most this many elements become constants if they can: what shapes are computed from is small."""


Inputs: TypeAlias = tuple[Expr | None, ...]
"""The inputs of a node; None for those left out."""
Outputs: TypeAlias = Sequence[Expr | None]
"""The outputs of a node; None for those that it does not give."""


class GraphImporter:
    """Translates the nodes of one model."""

    def __init__(self, facts: Facts, functions: Iterable[onnx.FunctionProto], config: Mapping[str, object]) -> None:
        self.facts: Final = facts
        """What is known about the expressions made so far."""
        self.functions: Final[Functions] = {function_key(one): one for one in functions}
        """The functions that the model brings."""
        self._config = config
        self._open: set[FunctionKey] = set()

    def run(self, nodes: Sequence[onnx.NodeProto], results: Iterable[str], scope: Scope) -> None:
        """Translate nodes; what their outputs stand for is put into the scope. `results` are what is wanted of them.

        Raises:
            OpNotImplementedError: if one cannot be translated.

        """
        walk_deep(self._run(nodes, tuple(results), scope))

    def _run(self, nodes: Sequence[onnx.NodeProto], results: Sequence[str], scope: Scope) -> Walk[Outputs]:
        """Translate nodes; a walk, as functions may call others to any depth."""
        used = {*results, *_used_names(nodes)}
        for node in nodes:
            try:
                yield self._add(node, used, scope)
            except Exception as error:
                error.add_note(f"in the node {_name(node)!r} ({node.op_type}) of the ONNX model")
                raise
        # A body may leave out results that nobody asked for.
        return [scope.values.get(name) for name in results]

    def _add(self, node: onnx.NodeProto, used: Set[str], scope: Scope) -> Walk[Outputs]:
        inputs = tuple(scope[name] for name in node.input)
        wanted = tuple(name if name in used else "" for name in node.output)
        outputs = yield self._translate(node, inputs, wanted, scope)
        if any(wanted[len(outputs) :]):
            raise _refused(node, f"only its first {len(outputs)} outputs are known to from_onnx")
        for one in outputs:
            self._type(one)  # what has none is told here, where the node is known
        may_fold = not any(isinstance(one, Expr) and not isinstance(one, Constant) for one in inputs)
        made = [self._folded(one) for one in outputs] if may_fold else outputs
        scope.values.update((name, one) for name, one in zip(node.output, made, strict=False) if name)
        return outputs

    def _translate(self, node: onnx.NodeProto, inputs: Inputs, wanted: tuple[str, ...], scope: Scope) -> Walk[Outputs]:
        attributes = attributes_of(node, scope.attributes)
        key = function_key(node)
        if key in self.functions:
            return (yield self._called(key, attributes, inputs, scope))
        version = scope.opsets.get(key[0], 1)
        converter = find_converter(key[0], node.op_type, version)
        if converter is not None:
            made = converter(self._given(node, inputs, wanted, attributes, scope))
            return [made] if isinstance(made, Expr) else made
        schema = schema_of(node.op_type, key[0], version)
        body = None if schema is None else body_of(schema, node, version, attributes, map(self._type, inputs))
        if body is None:
            raise _refused(node, "its operator is not known to from_onnx")
        refuse_unknown(body.nodes, {**scope.opsets, **body.opsets}, self.functions)
        return (yield self._inlined(body, inputs, scope))

    def _called(
        self, key: FunctionKey, attributes: Mapping[str, AttributeProto], inputs: Inputs, scope: Scope
    ) -> Walk[Outputs]:
        """Return the results of a function that the model brings."""
        if key in self._open:
            raise ValueError(f"the function {key[1]!r} of the ONNX model calls itself, so that it cannot be inlined")
        self._open.add(key)
        results = yield self._inlined(Body.of(self.functions[key], attributes), inputs, scope)
        self._open.remove(key)
        return results

    def _type(self, given: Expr | None) -> TensorType | None:
        found = None if given is None else self.facts.type_of(given)
        return found if isinstance(found, TensorType) else None

    def _given(
        self,
        node: onnx.NodeProto,
        inputs: Inputs,
        wanted: tuple[str, ...],
        attributes: Mapping[str, AttributeProto],
        scope: Scope,
    ) -> Node:
        """Return what a converter is given."""
        values = {name: attribute_value(one) for name, one in attributes.items()}
        return Node(
            op_type=node.op_type,
            version=scope.opsets.get(normal_domain(node.domain), 1),
            name=_name(node),
            inputs=inputs,
            outputs=wanted,
            attributes={name: one for name, one in values.items() if one is not None},
            subgraphs={name: InnerGraph(self, graph, scope) for name, graph in subgraphs_of(node)},
            facts=self.facts,
            config=self._config,
        )

    def _inlined(self, body: Body, inputs: Inputs, outer: Scope) -> Walk[Outputs]:
        """Return the results of a function, translated anew for this call of it."""
        # Some bodies of ONNX's own leave the default domain out.
        scope = Scope({**outer.opsets, **body.opsets}, body.attributes)
        padded = (*inputs, *[None] * (len(body.inputs) - len(inputs)))
        scope.values.update(zip(body.inputs, padded, strict=True))
        return self._run(body.nodes, body.outputs, scope)

    def _folded(self, expr: Expr | None) -> Expr | None:
        """Return a small constant in the place of the computation of one."""
        if not isinstance(expr, Call | TupleGetItem) or self.facts.source_of(expr) is not Source.CONSTANT:
            return expr
        ty = self.facts.type_of(expr)
        if not isinstance(ty, TensorType) or not ty.is_static or math.prod(ty.concrete_shape) > FOLD_LIMIT:
            return expr
        value = self.facts.value_of(expr)
        return expr if value is None or isinstance(value, tuple) else Constant(value)


@dataclass(frozen=True, slots=True)
class InnerGraph:
    """A graph that is an attribute of a node; calling it translates it, with the expressions for its inputs."""

    importer: GraphImporter
    """Translates it."""
    graph: onnx.GraphProto
    """The graph."""
    outer: Scope
    """The names that it can use beside its own."""

    def __call__(self, *inputs: Expr) -> list[Expr]:
        """Return its outputs."""
        scope = self.outer.inner()
        scope.values.update(zip((one.name for one in self.graph.input), inputs, strict=True))
        scope.values.update((name, Constant(value)) for name, value in _initializers(self.graph))
        self.importer.run(self.graph.node, (one.name for one in self.graph.output), scope)
        return [one for one in (scope[output.name] for output in self.graph.output) if one is not None]


def _initializers(graph: onnx.GraphProto) -> Iterable[tuple[str, Array]]:
    yield from ((one.name, tensor_value(one)) for one in graph.initializer)
    yield from ((one.values.name, dense_value(one)) for one in graph.sparse_initializer)


def _used_names(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """Go over the names that nodes take, and those that the graphs in them do."""
    for node in nodes:
        yield from node.input
        for _, graph in subgraphs_of(node):
            yield from (one.name for one in graph.output)
            yield from _used_names(graph.node)


def _name(node: onnx.NodeProto) -> str:
    return node.name or next(iter(node.output), "")


def _refused(node: onnx.NodeProto, why: str) -> OpNotImplementedError:
    return OpNotImplementedError(f"the node {_name(node)!r} ({node.op_type}) cannot be imported: {why}")
