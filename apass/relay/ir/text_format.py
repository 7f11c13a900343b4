"""Hooks for `str()` and `astext()` of nodes, which the printer registers."""

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["AsText", "astext", "pretty_print", "set_text_format"]


class AsText(Protocol):
    """The signature of `apass.relay.astext`.

    A Protocol, because nodes cannot import the printer: the printer imports the nodes.
    """

    def __call__(self, obj: Any, show_meta_data: bool = ..., annotate: Callable[[Any], str] | None = ...) -> str:
        """Return the text of `obj` with a version line."""
        ...


_text_format: list[tuple[Callable[[Any], str], AsText]] = []


def set_text_format(pretty_print: Callable[[Any], str], astext: AsText) -> None:
    """Set the functions that implement `str()` and `astext()` of nodes and modules."""
    _text_format[:] = [(pretty_print, astext)]


def pretty_print(obj: object) -> str:
    """Return Relay's text without version and metadata."""
    return _text_format[0][0](obj)


def astext(obj: object, show_meta_data: bool, annotate: Callable[[Any], str] | None) -> str:
    """Return Relay's text with a version line."""
    return _text_format[0][1](obj, show_meta_data, annotate)
