"""`Doc`: text with line breaks whose indentation is applied on rendering."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["NEWLINE", "Doc", "Indented", "braced", "render"]


@dataclass(frozen=True, slots=True)
class Indented:
    """A document indented by two columns."""

    doc: "Doc"
    """The document."""


Doc: TypeAlias = "str | Indented | list[Doc]"
"""A string, an indented document, or a sequence of documents. The string NEWLINE is a line break."""

NEWLINE: Final = "\n"
"""The line break. A line break within a longer string is not indented."""


def braced(body: Doc) -> Doc:
    """Return a block: the body in braces on separate, indented lines."""
    return ["{", Indented([NEWLINE, body]), NEWLINE, "}"]


def render(doc: Doc) -> str:
    r"""Return the text of a document, without recursion.

    >>> render(["if", braced(["a", NEWLINE, "b"])])
    'if{\n  a\n  b\n}'
    """
    return "".join(_pieces(doc))


def _pieces(doc: Doc) -> Iterator[str]:
    open_docs: list[tuple[Iterator[Doc], str]] = [(iter([doc]), "\n")]
    while open_docs:
        rest, newline = open_docs[-1]
        for item in rest:
            if isinstance(item, str):
                yield newline if item == NEWLINE else item
                continue
            inner, indent = (item.doc, newline + "  ") if isinstance(item, Indented) else (item, newline)
            open_docs.append((iter(inner if isinstance(inner, list) else [inner]), indent))
            break
        else:
            open_docs.pop()
