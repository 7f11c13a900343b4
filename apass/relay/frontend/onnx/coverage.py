"""Detection of unsupported operators before a model is translated."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import onnx

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.convert import find_converter
from apass.relay.frontend.onnx.functions import Body, body_of, schema_of
from apass.relay.frontend.onnx.protos import normal_domain, subgraphs_of

__all__ = ["FunctionKey", "Functions", "Operator", "check_supported", "function_key", "unsupported_operators"]

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a model-local function."""

Functions: TypeAlias = Mapping[FunctionKey, onnx.FunctionProto]
"""The model-local functions."""

Operator: TypeAlias = tuple[str, str, int]
"""Domain, name, and the version of the operator set."""


def function_key(proto: onnx.NodeProto | onnx.FunctionProto) -> FunctionKey:
    """Return the key of a function, or of the function that a node may call."""
    name = proto.op_type if isinstance(proto, onnx.NodeProto) else proto.name
    return normal_domain(proto.domain), name, proto.overload


def check_supported(nodes: Iterable[onnx.NodeProto], opsets: Mapping[str, int], functions: Functions) -> None:
    """Check that all operators are supported, in subgraphs and functions too.

    Raises:
        OpNotImplementedError: if some are not; the message lists all of them.

    """
    unsupported = Counter(unsupported_operators(nodes, opsets, functions))
    if unsupported:
        operators = ", ".join(_title(*operator, count) for operator, count in unsupported.items())
        raise OpNotImplementedError(
            f"from_onnx does not support {len(unsupported)} operators of the model: {operators}"
        )


def _title(domain: str, op_type: str, version: int, count: int) -> str:
    name = f"{domain}.{op_type}" if domain else op_type
    return f"{name} of operator set {version} ({count} node{'s' if count > 1 else ''})"


def unsupported_operators(
    nodes: Iterable[onnx.NodeProto], opsets: Mapping[str, int], functions: Functions
) -> Iterator[Operator]:
    """Iterate over unsupported operators, once for each node that uses one.

    The body of a function is searched once.
    """
    seen: set[FunctionKey] = set()
    pending = [(nodes, opsets)]
    while pending:
        batch, versions = pending.pop()
        for node in batch:
            pending.extend((graph.node, versions) for _, graph in subgraphs_of(node))
            key = function_key(node)
            if key in functions and key not in seen:
                body = Body.of(functions[key], {})
                pending.append((body.nodes, {**versions, **body.opsets}))
            elif key not in functions and not _is_supported(node, versions):
                yield key[0], node.op_type, versions.get(key[0], 1)
            seen.add(key)


def _is_supported(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Return whether an operator has a converter or a supported function body."""
    domain = normal_domain(node.domain)
    version = opsets.get(domain, 1)
    if find_converter(domain, node.op_type, version) is not None:
        return True
    schema = schema_of(node.op_type, domain, version)
    if schema is None or not schema.has_function:
        # A body that depends on input types is checked during translation, when the types are known.
        return schema is not None and schema.has_context_dependent_function
    body = body_of(schema, node, version, {}, ())
    return body is not None and all(_is_supported(inner, {**opsets, **body.opsets}) for inner in body.nodes)
