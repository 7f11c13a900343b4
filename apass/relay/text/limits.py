"""`TextLimits`: limits on what a small text may expand to."""

from dataclasses import dataclass
from typing import Final

__all__ = ["DEFAULT_LIMITS", "TextLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """Limits of the parser, for `apass.relay.parser.read_module`.

    A text that exceeds one raises ParseError, which names it.
    """

    nesting: int = 100
    """Maximum nesting of attribute values.

    Python compares, hashes and copies nested tuples by recursion, so a high limit can crash the process.
    """
    type_params: int = 1000
    """Maximum number of type parameters in scope.

    The cost of a type grows with the number of its parts times the number of type parameters around them.
    """
    values: int = 1_000_000
    """Maximum number of values in an object of the metadata, if it has fewer nodes than values.

    An array that is used n times counts n times, so a text of 1 KB can expand to 2**40 values.
    """


DEFAULT_LIMITS: Final = TextLimits()
"""The limits by default."""
