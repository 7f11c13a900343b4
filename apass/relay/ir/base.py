"""Names of sources and of variables, as in TVM's `relay.base`."""

from dataclasses import dataclass

from apass.core.diagnostics import Span

__all__ = ["Id", "SourceName", "Span"]


class SourceName(str):
    """The name of a source in the spans of parsed programs: a `str` with TVM's `name`.

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
    """The name of a variable as TVM exposes it: `var.vid`."""

    name_hint: str
    """The name."""
