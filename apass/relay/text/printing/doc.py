"""`Doc`: text whose line breaks do not know yet how far they are indented."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["NEWLINE", "Doc", "Indented", "braced", "render"]


@dataclass(frozen=True, slots=True)
class Indented:
    """A document whose line breaks are indented by two columns more."""

    doc: "Doc"
    """The document."""


Doc: TypeAlias = "str | Indented | list[Doc]"
"""A text, which is a line break if it is NEWLINE itself; or several documents, one after the other."""

NEWLINE: Final = "\n"
"""The line break; a longer text that has one in it is written as it is."""


def braced(body: Doc) -> Doc:
    """Return a block: the body within braces, on lines of its own."""
    return ["{", Indented([NEWLINE, body]), NEWLINE, "}"]


def render(doc: Doc) -> str:
    r"""Return the text; how deep documents are nested is no limit.

    >>> render(["if", braced(["a", NEWLINE, "b"])])
    'if{\n  a\n  b\n}'
    """
    return "".join(_pieces(doc))


def _pieces(doc: Doc) -> Iterator[str]:
    open_docs: list[tuple[Iterator[Doc], str]] = [(iter([doc]), "\n")]
    while open_docs:
        rest, newline = open_docs[-1]
        for one in rest:
            if isinstance(one, str):
                yield newline if one == NEWLINE else one
                continue
            inner, indent = (one.doc, newline + "  ") if isinstance(one, Indented) else (one, newline)
            open_docs.append((iter(_parts(inner)), indent))
            break
        else:
            open_docs.pop()


def _parts(doc: Doc) -> Iterable[Doc]:
    return doc if isinstance(doc, list) else [doc]
