"""Griffe extension that prepares docstrings for the API pages.

It puts examples into code fences and replaces headings that griffe does not know.
"""

from collections.abc import Iterator
from typing import Any

from griffe import Attribute, ExprSubscript, Extension, Object

HEADINGS = {"Raises (when it runs):": "Raises:", "Parameters and their defaults:": "Parameters:"}
"""The headings of apass, and their equivalents in griffe."""


class Doctests(Extension):
    """Puts fences around examples that have no heading of their own."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(_rewritten(obj.docstring.value.splitlines()))

    def on_attribute(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Remove `Final` from an annotation; it is of no use to readers of the API."""
        if isinstance(attr.annotation, ExprSubscript) and str(attr.annotation.left) == "Final":
            attr.annotation = attr.annotation.slice
        elif str(attr.annotation) == "Final":
            attr.annotation = None


def _rewritten(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if not inside and line.startswith(">>> "):
            inside = True
            yield from ("", "```pycon")
        if inside and not line.strip():
            inside = False
            yield "```"
        yield HEADINGS.get(line, line)
    if inside:
        yield "```"
