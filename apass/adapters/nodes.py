"""`Node`: what an adapter reports about one node of a function.

Instruments that follow nodes through a pipeline compare these values. An adapter without the optional method `nodes`
has functions only.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from apass.core.adapter import IRAdapter, adapter_for
from apass.errors import AdapterError

__all__ = ["Node", "has_locations", "nodes_of", "with_locations", "with_names"]

ModT = TypeVar("ModT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node of a function, such as an operation, an instruction or a call.

    >>> Node(name="relu_1", text="Relu", operands=("conv",), results=("y",)).location
    ''
    """

    name: str
    """The name, unique in the function."""
    text: str
    """The contents in one line, such as operator and attributes, without the name and the operands.

    Large data is a digest. A pass has changed a node if the text or an operand is another one.
    """
    operands: tuple[str, ...] = ()
    """The names of the values that the node uses."""
    results: tuple[str, ...] = ()
    """The names of the values that the node makes, by which other nodes and users refer to it."""
    location: str = ""
    """The source location; empty if there is none."""
    has_location: bool = True
    """Whether the IR can store a location for it."""
    is_named: bool = True
    """Whether the name is part of the IR, so that a pass keeps it.

    Otherwise the adapter has numbered the node, and `results` have numbers too.
    """
    identity: Hashable = None
    """The object of the node, if passes share the objects of the nodes that they do not change; else None."""
    display: str = ""
    """The node as one line of the IR, for people; made of the other fields if empty."""

    def __str__(self) -> str:
        """Return the node as one line.

        >>> str(Node(name="n", text="Add", operands=("a", "b"), results=("c",)))
        'c = Add(a, b)'
        """
        if self.display:
            return self.display
        made = f"{', '.join(self.results)} = " if self.results else ""
        used = f"({', '.join(self.operands)})" if self.operands else ""
        return f"{made}{self.text}{used}"


def nodes_of(adapter: IRAdapter[Any, Any], func: object) -> tuple[Node, ...]:
    """Return the nodes of a function in order, definitions before uses.

    There are none if the adapter does not define `nodes`.
    """
    nodes = getattr(adapter, "nodes", None)
    return () if nodes is None else tuple(cast("Iterable[Node]", nodes(func)))


def has_locations(adapter: IRAdapter[Any, Any]) -> bool:
    """Return whether the adapter can give locations to nodes without one."""
    return hasattr(adapter, "with_locations") and hasattr(adapter, "nodes")


def with_locations(mod: ModT) -> ModT:
    """Return a module in which each node without a location has one of its own.

    `LocationCheckInstrument` can then check all nodes.

    Raises:
        AdapterError: if the adapter of the module does not define `with_locations`.

    """
    adapter = adapter_for(mod)
    if not has_locations(adapter):
        kind = type(mod).__qualname__
        raise AdapterError(f"nodes of a {kind} have no locations: its adapter does not define nodes and with_locations")
    return cast("ModT", cast("Any", adapter).with_locations(mod))


def with_names(mod: ModT) -> ModT:
    """Return a module whose nodes keep their names in passes.

    It is the module itself, unless the adapter defines the optional method `with_names`: a library may number nodes
    anew, and keep the names of their locations.
    """
    method = getattr(adapter_for(mod), "with_names", None)
    return mod if method is None else cast("ModT", method(mod))
