"""Operators defined by other operators: model-local functions and ONNX's own."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import onnx
from onnx import AttributeProto, defs

from apass.relay.frontend.onnx.protos import normal_domain, type_proto
from apass.relay.ir.ty import TensorType

__all__ = ["Body", "body_of", "schema_of"]


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a function, for one call of it."""

    name: str
    """The name of the operator that it defines."""
    inputs: tuple[str, ...]
    """The names of the parameters."""
    outputs: tuple[str, ...]
    """The names of the results."""
    nodes: tuple[onnx.NodeProto, ...]
    """The nodes, in topological order."""
    opsets: Mapping[str, int]
    """The versions of its operator sets, by domain."""
    attributes: Mapping[str, AttributeProto]
    """The values of the attributes that its nodes refer to."""

    @classmethod
    def of(cls, function: onnx.FunctionProto, attributes: Mapping[str, AttributeProto]) -> "Body":
        """Return the body of a function for a call with the given attributes.

        Other attributes have their defaults.
        """
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        return cls(
            function.name,
            tuple(function.input),
            tuple(function.output),
            tuple(function.node),
            {normal_domain(opset.domain): opset.version for opset in function.opset_import},
            defaults | dict(attributes),
        )


class Schema(Protocol):
    """ONNX's definition of an operator.

    It declares the members of `onnx.defs.OpSchema` that are used here and that its stubs lack.
    """

    @property
    def attributes(self) -> Mapping[str, defs.OpSchema.Attribute]:
        """The attributes, with their defaults."""
        ...

    @property
    def has_function(self) -> bool:
        """Whether the operator is defined by other operators."""
        ...

    @property
    def has_context_dependent_function(self) -> bool:
        """Whether it is defined by other operators, depending on the node and its inputs."""
        ...

    @property
    def function_opset_versions(self) -> list[int]:
        """The operator set versions that have a definition."""
        ...

    @property
    def context_dependent_function_opset_versions(self) -> list[int]:
        """The operator set versions that have a definition that depends on the node."""
        ...

    def get_function_with_opset_version(self, opset_version: int, /) -> bytes:
        """Return the serialized definition."""
        ...

    def get_context_dependent_function_with_opset_version(
        self, opset_version: int, node: bytes, input_types: list[bytes], /
    ) -> bytes:
        """Return the serialized definition for a node."""
        ...


def schema_of(op_type: str, domain: str, version: int) -> Schema | None:
    """Return ONNX's definition of an operator, or None if there is none."""
    try:
        return cast("Schema", defs.get_schema(op_type, version, domain))
    except defs.SchemaError:
        return None


def body_of(
    schema: Schema,
    node: onnx.NodeProto,
    version: int,
    attributes: Mapping[str, AttributeProto],
    types: Iterable[TensorType | None],
) -> Body | None:
    """Return the body that ONNX defines for an operator, or None.

    The body may depend on the node and on the types of its inputs.
    """
    function = onnx.FunctionProto()
    if schema.has_function:
        chosen = _nearest(schema.function_opset_versions, version)
        function.ParseFromString(schema.get_function_with_opset_version(chosen))
    elif schema.has_context_dependent_function:
        chosen = _nearest(schema.context_dependent_function_opset_versions, version)
        protos = [(onnx.TypeProto() if ty is None else type_proto(ty)).SerializeToString() for ty in types]
        called = _with_attributes(node, attributes)
        text = schema.get_context_dependent_function_with_opset_version(chosen, called.SerializeToString(), protos)
        function.ParseFromString(text)
    return Body.of(function, _defaults(schema) | dict(attributes)) if function.node else None


def _nearest(versions: Iterable[int], version: int) -> int:
    """Return the newest version that is not newer than `version`, or else the oldest."""
    ordered = sorted(versions)
    return max((candidate for candidate in ordered if candidate <= version), default=ordered[0])


def _defaults(schema: Schema) -> dict[str, AttributeProto]:
    defaults = ((name, attribute.default_value) for name, attribute in schema.attributes.items())
    return {name: value for name, value in defaults if value.type != AttributeProto.UNDEFINED}


def _with_attributes(node: onnx.NodeProto, attributes: Mapping[str, AttributeProto]) -> onnx.NodeProto:
    """Return a copy of a node with the given attributes.

    In a function, they replace references to the attributes of the function.
    """
    result = onnx.NodeProto()
    result.CopyFrom(node)
    result.ClearField("attribute")
    for name, value in attributes.items():
        result.attribute.add().CopyFrom(value)
        result.attribute[-1].name = name
    return result
