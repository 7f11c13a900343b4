"""The pipeline languages of compilers, such as that of `opt -passes`.

A language reads its text as elements of a pipeline of apass, and writes passes in its own way.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from apass.errors import PassDefinitionError, PluginError
from apass.loading.entry_points import plugins
from apass.passes.base import Pass
from apass.passes.sequential import Sequential

__all__ = [
    "Element",
    "Language",
    "Option",
    "find_language",
    "language_names",
    "languages_of",
    "native_text",
]

_LANGUAGES: Final = "apass.languages"


@dataclass(frozen=True, slots=True)
class Option:
    """The syntax of one option."""

    key: str
    """The name of the option of apass."""
    position: int
    """The offset of the name in the text of the pipeline."""
    value: object
    """A Bare, a str, or a list or Entries of these; None if `passes` is set."""
    passes: "list[Element] | None"
    """The passes in parentheses, if the value consists of passes."""
    value_position: int
    """The offset of the value."""


@dataclass(frozen=True, slots=True)
class Element:
    """The syntax of one pass."""

    name: str
    """The registered name of the pass."""
    position: int
    """The offset of the name in the text of the pipeline."""
    options: list[Option] = field(default_factory=list[Option])
    """The options."""
    passes: "list[Element]" = field(default_factory=list["Element"])
    """The contained passes."""
    passes_position: int = 0
    """The offset of the opening parenthesis, or the one at which it is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language of pipelines.

    A package declares it as an entry point of the group `apass.languages`. The name of the entry point is that of the
    language, and is written before a text: `llvm:default<O2>`. It is also the prefix of the names of the passes. For
    each suffix of files whose modules the passes take, there is a further entry point, such as `llvm:.ll`.
    """

    parse: Callable[[str, int, int], list[Element]]
    """Returns the elements of `text[start:end]`, given `text`, `start` and `end`.

    It raises PipelineSyntaxError, with an offset in `text`.
    """
    write: Callable[[Sequence[Pass[Any]]], str]
    """Returns the text of passes in the language. It raises PassDefinitionError for a pass that the language lacks.

    The passes of a Sequential are in its place.
    """
    read_parameters: Callable[[str, str, int, int], list[Option]] | None = None
    """Returns the options for the parameters in angle brackets of a pass, given its name, `text`, `start` and `end`."""


def language_names() -> Iterator[str]:
    """Iterate over the names of the languages; nothing is imported."""
    yield from sorted(name for name in plugins(_LANGUAGES) if ":" not in name)


def find_language(name: str) -> Language:
    """Return the language of a name.

    Raises:
        KeyError: if there is none.
        PluginError: if the entry point names something else.
        MissingExtraError: if a library is not installed.

    """
    offer = plugins(_LANGUAGES)[name]
    value: object = offer.load()
    if not isinstance(value, Language):
        raise PluginError(f"the entry point {offer.value!r} names {value!r}, which is not an apass.plugins.Language")
    return value


def languages_of(suffixes: Sequence[str]) -> Iterator[str]:
    """Iterate over the names of the languages for files of some suffixes.

    Without suffixes, these are all. Nothing is imported.
    """
    declared = plugins(_LANGUAGES)
    for name in language_names():
        if not suffixes or any(f"{name}:{suffix}" in declared for suffix in suffixes):
            yield name


def native_text(pass_: Pass[Any], name: str) -> str:
    """Return a pipeline in the language of a compiler.

    Raises:
        PassDefinitionError: if the language is unknown, or a pass has no form in it.

    """
    if name not in language_names():
        raise PassDefinitionError(f"no language is named {name!r}; expected one of {', '.join(language_names())}")
    return find_language(name).write(list(_leaves(pass_)))


def _leaves(pass_: Pass[Any]) -> Iterator[Pass[Any]]:
    """Iterate over the passes of a Sequential, or over the pass itself."""
    if isinstance(pass_, Sequential):
        for inner in pass_.passes:
            yield from _leaves(inner)
    else:
        yield pass_
