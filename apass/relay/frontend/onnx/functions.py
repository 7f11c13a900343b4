"""Operators that are functions of other operators: those that a model brings, and those that ONNX defines so."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import onnx
from onnx import AttributeProto, defs

from apass.relay.frontend.onnx.protos import normal_domain, type_proto
from apass.relay.ty import TensorType

__all__ = ["Body", "body_of", "schema_of"]


@dataclass(frozen=True, slots=True)
class Body:
    """The nodes of a function, as one call of it has them."""

    name: str
    """The operator that it is the body of."""
    inputs: tuple[str, ...]
    """The names of the parameters."""
    outputs: tuple[str, ...]
    """The names of the results."""
    nodes: tuple[onnx.NodeProto, ...]
    """The nodes, each after those that it needs."""
    opsets: Mapping[str, int]
    """The versions of the operators in it, by domain."""
    attributes: Mapping[str, AttributeProto]
    """The values of the attributes that the nodes refer to."""

    @classmethod
    def of(cls, function: onnx.FunctionProto, given: Mapping[str, AttributeProto]) -> "Body":
        """Return the body of a function that is called with the attributes `given`; others have their defaults."""
        defaults = {one.name: one for one in function.attribute_proto}
        return cls(
            function.name,
            tuple(function.input),
            tuple(function.output),
            tuple(function.node),
            {normal_domain(one.domain): one.version for one in function.opset_import},
            defaults | dict(given),
        )


class Schema(Protocol):
    """ONNX's definition of an operator: what is used of `onnx.defs.OpSchema`, and is not in the stubs of it."""

    @property
    def attributes(self) -> Mapping[str, defs.OpSchema.Attribute]:
        """The attributes, with their defaults."""
        ...

    @property
    def has_function(self) -> bool:
        """Whether it is defined by others."""
        ...

    @property
    def has_context_dependent_function(self) -> bool:
        """Whether it is defined by others, which depend on a node and its inputs."""
        ...

    @property
    def function_opset_versions(self) -> list[int]:
        """The versions that there is a definition for."""
        ...

    @property
    def context_dependent_function_opset_versions(self) -> list[int]:
        """The versions that there is a definition for, which depends on a node."""
        ...

    def get_function_with_opset_version(self, opset_version: int, /) -> bytes:
        """Return the definition."""
        ...

    def get_context_dependent_function_with_opset_version(
        self, opset_version: int, node: bytes, input_types: list[bytes], /
    ) -> bytes:
        """Return the definition for a node."""
        ...


def schema_of(op_type: str, domain: str, version: int) -> Schema | None:
    """Return ONNX's definition of an operator, None if it has none."""
    try:
        return cast("Schema", defs.get_schema(op_type, version, domain))
    except defs.SchemaError:
        return None


def body_of(
    schema: Schema,
    node: onnx.NodeProto,
    version: int,
    given: Mapping[str, AttributeProto],
    types: Iterable[TensorType | None],
) -> Body | None:
    """Return the body that ONNX gives an operator, for inputs of the types; None if it gives none."""
    function = onnx.FunctionProto()
    if schema.has_function:
        chosen = _nearest(schema.function_opset_versions, version)
        function.ParseFromString(schema.get_function_with_opset_version(chosen))
    elif schema.has_context_dependent_function:
        chosen = _nearest(schema.context_dependent_function_opset_versions, version)
        protos = [(onnx.TypeProto() if one is None else type_proto(one)).SerializeToString() for one in types]
        called = _with_attributes(node, given)
        made = schema.get_context_dependent_function_with_opset_version(chosen, called.SerializeToString(), protos)
        function.ParseFromString(made)
    return Body.of(function, _defaults(schema) | dict(given)) if function.node else None


def _nearest(versions: Iterable[int], version: int) -> int:
    """Return the newest of the versions that is not newer than one that is wanted, else the oldest."""
    ordered = sorted(versions)
    return max((one for one in ordered if one <= version), default=ordered[0])


def _defaults(schema: Schema) -> dict[str, AttributeProto]:
    defaults = ((name, one.default_value) for name, one in schema.attributes.items())
    return {name: one for name, one in defaults if one.type != AttributeProto.UNDEFINED}


def _with_attributes(node: onnx.NodeProto, given: Mapping[str, AttributeProto]) -> onnx.NodeProto:
    """Return a node with values for its attributes, which may refer to those of a function around it."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.ClearField("attribute")
    for name, one in given.items():
        made.attribute.add().CopyFrom(one)
        made.attribute[-1].name = name
    return made
