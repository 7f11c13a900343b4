"""`Scope`: what the names of a graph stand for while its nodes are translated."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto

from apass.relay.expr import Expr

__all__ = ["Scope"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of one graph, or of the body of one call of a function."""

    opsets: Mapping[str, int]
    """The versions of the operators, by domain."""
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    """The attributes of the call, if it is the body of a function."""
    parent: "Scope | None" = None
    """The scope of the graph around a subgraph, whose names can be used in it."""
    values: dict[str, Expr | None] = field(default_factory=dict[str, Expr | None])
    """What the names stand for; None for inputs of a function that a call leaves out."""

    def __getitem__(self, name: str) -> Expr | None:
        """Return what a name stands for; None for the empty one.

        Raises:
            ValueError: if no node before has the name as an output.

        """
        scope: Scope | None = self
        while name and scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        if name:
            raise ValueError(f"the ONNX model uses the value {name!r}, which nothing before it makes")
        return None

    def inner(self) -> "Scope":
        """Return the scope of a subgraph."""
        return Scope(self.opsets, self.attributes, self)
