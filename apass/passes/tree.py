"""`pass_tree`: the tree in which a display shows a pass."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from apass.core.named_callables import value_text
from apass.display.blocks import Span, Tree
from apass.util.text import shorten

__all__ = ["pass_tree"]

_SHOWN_OTHERWISE: Final = frozenset({"opt_level", "name", "required", "otherwise"})
"""Options of passes with contained passes that the tree shows in another way."""


def pass_tree(pass_: Any, *, combines: bool, otherwise: Sequence[Any] = ()) -> Tree:
    """Return a tree of a pass and of the passes that it contains.

    Parameters:
        pass_: the pass. Its class is above this module.
        combines: whether the class is one of passes that contain others.
        otherwise: more contained passes: the other branch of an If.

    """
    children = [child.__block__() for child in pass_.children()]
    if otherwise:
        children.append(Tree((Span("otherwise", "muted"),), [child.__block__() for child in otherwise]))
    return Tree(tuple(_label(pass_, combines=combines)), children)


def _label(pass_: Any, *, combines: bool) -> Iterator[Span]:
    info = pass_.info
    yield Span(info.name, "name")
    kind = type(pass_).__name__
    if kind.lower() != info.name.lower():
        yield Span(f"  {kind}", "muted")
    yield Span(f"  level {info.opt_level}", "number")
    if info.required:
        yield Span("  requires ", "muted")
        yield Span(", ".join(info.required), "variable")
    options = () if pass_.spec is None else pass_.spec[1].items()
    for key, value in options:
        if key not in _SHOWN_OTHERWISE or not combines:
            yield Span(f"  {key}=", "muted")
            yield Span(shorten(_value(value), 80))
    # The docstring of a combinator describes all of them, not this one.
    summary = "" if combines else (pass_.__doc__ or "").strip().partition("\n")[0]
    if summary:
        yield Span(f"  {shorten(summary, 100)}", "comment")


def _value(value: object) -> str:
    try:
        return value_text(value)
    except TypeError:
        return getattr(value, "__qualname__", None) or repr(value)
