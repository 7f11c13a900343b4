"""Which operators of a model cannot be imported: all of them are told at once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import onnx

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.convert import find_converter
from apass.relay.frontend.onnx.functions import Body, body_of, schema_of
from apass.relay.frontend.onnx.protos import normal_domain, subgraphs_of

__all__ = ["FunctionKey", "Functions", "Operator", "function_key", "refuse_unknown", "unknown_operators"]

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name and overload of a function that a model brings."""

Functions: TypeAlias = Mapping[FunctionKey, onnx.FunctionProto]
"""The functions that a model brings."""

Operator: TypeAlias = tuple[str, str, int]
"""Domain, name, and the version of the operator set."""


def function_key(one: onnx.NodeProto | onnx.FunctionProto) -> FunctionKey:
    """Return the key of a function, or of the one that a node may call."""
    name = one.op_type if isinstance(one, onnx.NodeProto) else one.name
    return normal_domain(one.domain), name, one.overload


def refuse_unknown(nodes: Iterable[onnx.NodeProto], opsets: Mapping[str, int], functions: Functions) -> None:
    """Do nothing if all operators are known, in subgraphs and functions too.

    Raises:
        OpNotImplementedError: if some are not; the message names them all.

    """
    unknown = Counter(unknown_operators(nodes, opsets, functions))
    if unknown:
        told = ", ".join(_title(*operator, count) for operator, count in unknown.items())
        raise OpNotImplementedError(f"from_onnx does not know {len(unknown)} of the model's operators: {told}")


def _title(domain: str, op_type: str, version: int, count: int) -> str:
    name = f"{domain}.{op_type}" if domain else op_type
    return f"{name} of operator set {version} ({count} node{'s' if count > 1 else ''})"


def unknown_operators(
    nodes: Iterable[onnx.NodeProto], opsets: Mapping[str, int], functions: Functions
) -> Iterator[Operator]:
    """Go over the operators that are not known, once for each node; the body of a function is gone over once."""
    seen: set[FunctionKey] = set()
    waiting = [(nodes, opsets)]
    while waiting:
        some, versions = waiting.pop()
        for node in some:
            waiting.extend((graph.node, versions) for _, graph in subgraphs_of(node))
            key = function_key(node)
            if key in functions and key not in seen:
                body = Body.of(functions[key], {})
                waiting.append((body.nodes, {**versions, **body.opsets}))
            elif key not in functions and not _is_known(node, versions):
                yield key[0], node.op_type, versions.get(key[0], 1)
            seen.add(key)


def _is_known(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Tell whether there is a converter, or ONNX defines the operator by others that have one.

    What a body that depends on the types of the inputs consists of is seen when they are known.
    """
    domain = normal_domain(node.domain)
    version = opsets.get(domain, 1)
    if find_converter(domain, node.op_type, version) is not None:
        return True
    schema = schema_of(node.op_type, domain, version)
    if schema is None or not schema.has_function:
        return schema is not None and schema.has_context_dependent_function
    body = body_of(schema, node, version, {}, ())
    return body is not None and all(_is_known(one, {**opsets, **body.opsets}) for one in body.nodes)
