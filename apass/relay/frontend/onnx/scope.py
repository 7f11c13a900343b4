"""`ValueScope`: the values of names while the nodes of a graph are translated."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto

from apass.relay.ir.expr import Expr

__all__ = ["ValueScope"]


@dataclass(frozen=True, slots=True)
class ValueScope:
    """The names of one graph, or of the body of one call of a function."""

    opsets: Mapping[str, int]
    """The operator set versions, by domain."""
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    """The attributes of the call, if the scope is that of a function body."""
    parent: "ValueScope | None" = None
    """The scope of the enclosing graph, whose names are visible in a subgraph."""
    values: dict[str, Expr | None] = field(default_factory=dict[str, Expr | None])
    """The values by name; None for an omitted input of a function call."""

    def __getitem__(self, name: str) -> Expr | None:
        """Return the value of a name; None for the empty name (an omitted input).

        Raises:
            ValueError: if no earlier node has an output of that name.

        """
        scope: ValueScope | None = self
        while name and scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        if name:
            raise ValueError(f"the ONNX model uses the value {name!r} before any node produces it")
        return None

    def inner(self) -> "ValueScope":
        """Return the scope of a subgraph."""
        return ValueScope(self.opsets, self.attributes, self)
