"""The language of `opt -passes`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from apass.adapters.llvm.catalogue import PassEntry
from apass.adapters.llvm.opt import find_opt
from apass.adapters.llvm.passes import MANAGERS, PREFIX, identifier_of, levels_of, managers_of
from apass.adapters.llvm.passes.opt_passes import OptPass
from apass.errors import PassDefinitionError, PipelineSyntaxError
from apass.passes.base import Pass
from apass.pipelines.languages import Element, Language, Option
from apass.util.typed_values import Bare

__all__ = ["LANGUAGE"]

_NAME: Final = re.compile(r"[\w.-]+")
_BRACKET: Final = re.compile(r"<((?:[^<>]|<[^<>]*>)*)>")
_LEVEL: Final = re.compile(r"O[0-3sz]")


class _Reader:
    """A recursive-descent reader of a part of a text."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.position = start
        self.end = end
        opt = find_opt()
        self.passes = {} if opt is None else {entry.name: entry for entry in opt.catalogue.passes}

    def elements(self, closing: str = "") -> list[Element]:
        """Return the elements up to a closing parenthesis, or to the end."""
        found: list[Element] = []
        while not (found and self.at(closing)):
            if found:
                if not self.at(","):
                    raise self.error(f"expected ',' or {repr(closing) if closing else 'the end'}")
                self.position += 1
            found.append(self.element())
        self.position += len(closing)
        return found

    def at(self, mark: str) -> bool:
        """Return whether a mark follows; "" is the end."""
        while self.position < self.end and self.text[self.position].isspace():
            self.position += 1
        return self.position >= self.end if not mark else self.text[self.position : self.end].startswith(mark)

    def element(self) -> Element:
        """Return `name<parameters>(passes)`."""
        self.at(",")
        start = self.position
        match = _NAME.match(self.text, start, self.end)
        if match is None:
            raise self.error("expected the name of a pass")
        name, self.position = match[0], match.end()
        brackets: list[re.Match[str]] = []
        while (bracket := _BRACKET.match(self.text, self.position, self.end)) is not None:
            brackets.append(bracket)
            self.position = bracket.end()
        if not self.at("("):
            return Element(f"{PREFIX}{name}", start, list(self.options(name, brackets)))
        place = self.position
        if name not in MANAGERS:
            raise self.error(f"{name!r} is no manager of passes; expected one of {', '.join(MANAGERS)}")
        self.position += 1
        options = [option for found in brackets for option in _flags(name, found)]
        return Element(f"{PREFIX}{name}", start, options, self.elements(")"), place)

    def options(self, name: str, brackets: Sequence[re.Match[str]]) -> Iterator[Option]:
        """Iterate over the options for the parameters of a pass."""
        entry = self.passes.get(name, PassEntry(name, ()))
        rest = list(brackets)
        if rest and any(rest[0][1] == analysis for analysis, _ in entry.analyses):
            first = rest.pop(0)
            yield _option("analysis", first.start(1), first[1])
        unknown: list[str] = []
        lists: dict[str, list[str]] = {}
        for bracket in rest:
            position = bracket.start(1)
            for word in bracket[1].split(";"):
                found = _parameter(entry, word)
                if found is None:
                    unknown += [word] if word else []
                elif found[0] in lists or any(p.kind == "list" and p.name == found[0] for p in entry.parameters):
                    lists.setdefault(found[0], []).append(found[1])
                else:
                    yield _option(identifier_of(found[0]), position, Bare(found[1]))
                position += len(word) + 1
        for key, values in lists.items():
            yield _option(identifier_of(key), rest[0].start(1), values)
        if unknown:
            yield _option("params", rest[0].start(1), ";".join(unknown))

    def managers_of(self, element: Element) -> tuple[str, ...]:
        """Return the managers around an element that is the first of several."""
        name = element.name.removeprefix(PREFIX)
        if name in MANAGERS:
            return MANAGERS[name][1]
        entry = self.passes.get(name, PassEntry(name, ("module",)))
        analysis = next((str(option.value) for option in element.options if option.key == "analysis"), None)
        return managers_of(entry, levels_of(entry, analysis)[0])

    def error(self, message: str) -> PipelineSyntaxError:
        """Return an error at the position."""
        got = repr(self.text[self.position]) if self.position < self.end else "the end"
        return PipelineSyntaxError(f"{message}, got {got}", self.text, min(self.position, self.end))


def _option(key: str, position: int, value: object) -> Option:
    return Option(key, position, value, None, position)


def _parameter(entry: PassEntry, word: str) -> tuple[str, str] | None:
    """Return the name and the value of a parameter; None if it is unknown."""
    kinds = {parameter.name: parameter.kind for parameter in entry.parameters}
    name, equals, value = word.partition("=")
    if equals:
        return (name, value) if kinds.get(name) in ("int", "str", "list") else None
    if ("level" in kinds or not kinds) and _LEVEL.fullmatch(word):
        return "level", word
    if kinds.get(word) in ("flag", "switch"):
        return word, "true"
    positive = word.removeprefix("no-")
    return (positive, "false") if positive != word and kinds.get(positive) == "switch" else None


def _flags(name: str, bracket: re.Match[str]) -> Iterator[Option]:
    """Iterate over the options of a manager."""
    for word in bracket[1].split(";"):
        if name == "devirt":
            yield _option("times", bracket.start(1), Bare(word))
        else:
            yield _option(identifier_of(word), bracket.start(1), Bare("true"))


def _parse(text: str, start: int, end: int) -> list[Element]:
    reader = _Reader(text, start, end)
    elements = [] if reader.at("") else reader.elements()
    if len(elements) < 2:
        return elements
    # The first pass decides what the whole pipeline runs on.
    for manager in reversed(reader.managers_of(elements[0])):
        elements = [Element(f"{PREFIX}{manager}", elements[0].position, [], elements, elements[0].position)]
    return elements


def _read_parameters(name: str, text: str, start: int, end: int) -> list[Option]:
    reader = _Reader(text, start, end)
    plain = name.removeprefix(PREFIX)
    brackets = list(_BRACKET.finditer(text, start, end))
    if plain in MANAGERS:
        return [option for bracket in brackets for option in _flags(plain, bracket)]
    return list(reader.options(plain, brackets))


def _write(passes: Sequence[Pass[Any]]) -> str:
    return ",".join(_native(passes))


def _native(passes: Sequence[Pass[Any]]) -> Iterator[str]:
    for pass_ in passes:
        if isinstance(pass_, OptPass):
            yield pass_.native_text() if not pass_.element.managers else str(pass_.elements()[0])
        else:
            raise PassDefinitionError(f"{pass_} has no form in the language of opt; give only passes llvm.*")


LANGUAGE: Final = Language(parse=_parse, write=_write, read_parameters=_read_parameters)
"""The language."""
