"""What TVM has in `relay.base`: the names of sources and of variables."""

from dataclasses import dataclass

from apass.core.diagnostics import Span

__all__ = ["Id", "SourceName", "Span"]


class SourceName(str):
    """The name of a source, as the spans of parsed programs have it; a plain string, but for TVM's `name`.

    >>> SourceName("main.relay").name
    'main.relay'
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name itself."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Id:
    """The name of a variable, as TVM keeps it: `var.vid`."""

    name_hint: str
    """The name."""
