"""`Node`, and the names of sources and of variables, as in TVM's `relay.base`."""

from dataclasses import dataclass, field

from apass.core.diagnostics import Span

__all__ = ["Id", "Node", "SourceName", "Span", "TextName"]


class Node:
    """Base of expressions, types, patterns, attributes and modules."""

    __slots__ = ()

    def same_as(self, other: object) -> bool:
        """Return whether `other` is the same object."""
        return self is other


class SourceName(str, Node):
    """The name of a source in the spans of parsed programs: a `str` with TVM's `name`.

    >>> SourceName("main.relay").name
    'main.relay'
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name itself."""
        return str(self)

    def same_as(self, other: object) -> bool:
        """Return whether `other` is the same name.

        TVM has one object for each name.
        """
        return isinstance(other, SourceName) and self == other


class TextName(SourceName):
    """The name of a text that the parser read.

    The printer omits it, because all expressions of the text have it. It prints other names after calls.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Id(Node):
    """The name of a variable as TVM exposes it: `var.vid`."""

    name_hint: str
    """The name."""
    owner: object = field(default=None, repr=False, compare=False)
    """The variable that has the name; None if it was made without one."""

    def same_as(self, other: object) -> bool:
        """Return whether `other` is the name of the same variable."""
        # `var.vid` is a new object each time.
        is_of_same = isinstance(other, Id) and self.owner is not None and self.owner is other.owner
        return self is other or is_of_same
