"""Lets the API pages show docstrings as meant: examples as code, contracts under headings that griffe knows."""

from collections.abc import Iterator
from typing import Any

from griffe import Attribute, ExprSubscript, Extension, Object

HEADINGS = {"Raises (when it runs):": "Raises:", "Parameters and their defaults:": "Parameters:"}
"""Headings of ours, and those that griffe knows."""


class Doctests(Extension):
    """Puts fences around the examples that stand in docstrings without a heading of their own."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = "\n".join(_rewritten(obj.docstring.value.splitlines()))

    def on_attribute(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Leave out `Final`, which says nothing to a reader of the API."""
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
