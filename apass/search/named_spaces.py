"""`find_space`: the spaces that plug-ins offer by name, such as `llvm.phases`."""

from collections.abc import Set as AbstractSet
from typing import Any, Final, cast

from apass.core.ir_plugin import ir_names
from apass.errors import SearchError, did_you_mean
from apass.loading.entry_points import plugins
from apass.search.space import Space
from apass.util.typed_values import BARE_WORD

__all__ = ["check_ir", "find_space", "space_names"]

_GROUP: Final = "apass.spaces"
"""The group of entry points; each names a function that returns the text of a space."""


def space_names() -> list[str]:
    """Return the names of all spaces; nothing is imported."""
    return sorted(plugins(_GROUP))


def find_space(text: str) -> Space:
    """Return the space of a name, or of a text with holes.

    Raises:
        SearchError: if no space has the name, or the text has no holes.
        MissingExtraError: if the space needs a library or a program that is not installed.
        PipelineSyntaxError: if the text cannot be parsed.

    """
    offers = plugins(_GROUP)
    if text in offers:
        make: Any = offers[text].load()
        return Space(cast("str", make()), name=text)
    if BARE_WORD.fullmatch(text.strip()):
        hint = did_you_mean(text, offers, listing="named are ")
        raise SearchError(f"{text!r} is neither the name of a space nor a pipeline with holes, as '?(A|B)'{hint}")
    return Space(text)


def check_ir(space: Space, irs: AbstractSet[str]) -> None:
    """Check that a named space is for the IR of the modules.

    Raises:
        SearchError: if it is for another one.

    """
    own = space.name.partition(".")[0]
    if irs and own in ir_names() and own not in irs:
        fitting = [name for name in space_names() if name.partition(".")[0] in irs]
        instead = f"; for these there are {', '.join(fitting)}" if fitting else ""
        raise SearchError(f"the space {space.name} is for modules of {own}, got {' and '.join(sorted(irs))}{instead}")
