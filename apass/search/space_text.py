"""`parse_space`: parses a pipeline text with holes."""

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Final, Literal, get_args, get_origin

from apass.errors import ApassError, PipelineSyntaxError
from apass.passes.registry import pass_options
from apass.pipelines.languages import Option
from apass.pipelines.syntax import Parser, prefix_of
from apass.search.template import Choice, Item, Number, PassTemplate, Steps
from apass.util.typed_values import Bare, plain_types, type_name

__all__ = ["parse_space"]

_NUMBER: Final = r"[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_RANGE: Final = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(:log)?")
"""A range of numbers: `1..4`, `0.1..0.9`, `1..1024:log`."""

MOST_STEPS: Final = 1000
"""Maximum length of a sequence."""


def parse_space(text: str) -> tuple[Item, ...]:
    """Return the parsed text of a space.

    Raises:
        PipelineSyntaxError: if the text cannot be parsed.
        UnknownPassError: if a hole is an option of an unknown pass.

    """
    if not isinstance(text, str):
        raise TypeError(f"a space is the text of a pipeline with holes, got {text!r}")
    prefix, _ = prefix_of(text)
    if prefix:
        message = f"a space is a pipeline of apass; write {prefix}:(...) for passes in the language of {prefix}"
        raise PipelineSyntaxError(message, text, 0)
    return _SpaceParser(text).space()


class _SpaceParser(Parser):
    """A parser of pipelines with holes."""

    choice_hint: ClassVar[str] = ""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._names: dict[str, int] = {}
        """How many holes have each name."""
        self._owner = ""
        """The pass whose options are read."""
        self._key = ""
        """The option that is read."""
        self._holes: list[tuple[int, Number | Choice, int]] = []
        """The holes of the current options, between their offsets."""

    def space(self) -> tuple[Item, ...]:
        """Return the items of the text."""
        items = self.list_of(self.item, "end")
        if self.next.kind != "end":
            raise self.error(f"expected ',' or the end of the text, got {self.next.shown()}")
        return tuple(items)

    def item(self) -> Item:
        """Parse a pass or a hole."""
        if self.next.kind == "?":
            return self.hole_of_passes()
        start = self.next.position
        if self.next.kind == "native":
            self.elements()
            return PassTemplate((self.text[start : self.end],))
        name = self.take("word", "the name of a pass")
        if self.next.kind == "angle":
            self.parameters(name)
        outer, self._holes = self._holes, []
        owner, self._owner = self._owner, name.text
        if self.next.kind == "{":
            self.options()
        head = self.parts(start, self.end)
        self._holes, self._owner = outer, owner
        return PassTemplate(head, tuple(self.enclosed(self.item, ")")) if self.next.kind == "(" else None)

    def parts(self, start: int, end: int) -> tuple[str | Number | Choice, ...]:
        """Return the text between two offsets, with its holes."""
        parts: list[str | Number | Choice] = []
        for first, hole, last in self._holes:
            parts += [self.text[start:first], hole]
            start = last
        return (*parts, self.text[start:end])

    def hole_of_passes(self) -> Choice | Steps:
        """Parse `?(A|B)` or `?{1..12,once}(A|B)`."""
        self.advance()
        if self.next.kind == "(":
            return Choice(self.unique("choice"), self.alternatives(self.pipeline_items))
        opening = self.next
        self.take("{", "'(' with alternatives, or '{' with the number of steps, after '?'")
        counts = self.take("word", "the number of steps, as 1..12")
        match = _RANGE.fullmatch(counts.text) or re.fullmatch(r"(\d+)()()", counts.text)
        numbers = [] if match is None else [match[1], match[2] or match[1]]
        if not numbers or not all(number.isdecimal() for number in numbers):
            message = f"expected the number of steps, as 1..12, got {counts.text!r}"
            raise PipelineSyntaxError(message, self.text, counts.position)
        least, most = map(int, numbers)
        once = self.next.kind == ","
        if once:
            self.advance()
            if self.take("word", "'once'").text != "once":
                raise PipelineSyntaxError("expected 'once' after the number of steps", self.text, counts.position)
        self.take("}", f"'}}' to close the '{{' at character {opening.position}")
        name = self.unique("steps")
        options = self.alternatives(self.pipeline_items)
        if once:
            most = min(most, len(options))
        if not 0 <= least <= most <= MOST_STEPS:
            message = f"expected a number of steps from 0 to {MOST_STEPS}, the smaller one first, got {counts.text}"
            raise PipelineSyntaxError(message, self.text, counts.position)
        return Steps(name, least, most, options, once)

    def pipeline_items(self) -> tuple[Item, ...]:
        """Parse one alternative: passes separated by commas, or nothing."""
        if self.next.kind in ("|", ")"):
            return ()
        items = [self.item()]
        while self.next.kind == ",":
            self.advance()
            items.append(self.item())
        return tuple(items)

    def alternatives(self, parse_one: Callable[[], tuple[Item, ...]]) -> tuple[tuple[Item, ...], ...]:
        """Parse alternatives in parentheses, separated by bars."""
        opening = self.take("(", "'(' with alternatives")
        self.depth += 1
        options = [parse_one()]
        while self.next.kind == "|":
            self.advance()
            options.append(parse_one())
        self.depth -= 1
        self.take(")", f"'|' or ')' to close the '(' at character {opening.position}")
        return tuple(options)

    def option(self) -> Option:
        """Parse an option, whose value may be a hole."""
        self._key = self.next.text.replace("-", "_")
        return super().option()

    def value(self) -> object:
        """Parse a value, or a hole in its place."""
        if self.next.kind != "?":
            return super().value()
        start, key = self.next.position, self._key
        self.advance()
        self._holes.append((start, self.hole_of_value(start, key), self.end))
        return Bare("?")

    def hole_of_value(self, start: int, key: str) -> Number | Choice:
        """Parse what follows the `?` of a value: a range, alternatives, or nothing."""
        name = self.unique(f"{self._owner}.{key}")
        if self.next.kind == "(":
            return Choice(name, self.alternatives(self.value_item))
        if self.next.kind == "word" and (match := _RANGE.fullmatch(self.next.text)) is not None:
            position = self.next.position
            self.advance()
            return self.number(name, match, position)
        if self.next.kind == "word":
            raise self.error(f"expected a range of numbers, as ?1..4 or ?0.1..0.9, got {self.next.shown()}")
        try:
            parameter = pass_options(self._owner).get(key)
        except ApassError as error:
            raise PipelineSyntaxError(str(error), self.text, start) from error
        annotation = Any if parameter is None or parameter.annotation is parameter.empty else parameter.annotation
        words = _words_of(annotation)
        if not words:
            message = (
                f"option {key!r} of pass {self._owner!r} is of type {type_name(annotation)}, "
                f"which has no list of values; write a range, as {key}=?1..4, or values, as {key}=?(a|b)"
            )
            raise PipelineSyntaxError(message, self.text, start)
        return Choice(name, tuple((PassTemplate((word,)),) for word in words))

    def value_item(self) -> tuple[Item, ...]:
        """Parse one alternative of a value."""
        start = self.next.position
        super().value()
        return (PassTemplate((self.text[start : self.end],)),)

    def number(self, name: str, match: "re.Match[str]", position: int) -> Number:
        """Return the hole of a range."""
        is_int = all(re.fullmatch(r"[-+]?\d+", match[index]) for index in (1, 2))
        low, high = (int(match[index]) if is_int else float(match[index]) for index in (1, 2))
        if low > high or (match[3] and low <= 0):
            expected = "a positive number and a greater one, for ':log'" if match[3] else "the smaller number first"
            raise PipelineSyntaxError(f"expected {expected}, got {match[0]}", self.text, position)
        return Number(name, low, high, is_int, bool(match[3]))

    def unique(self, name: str) -> str:
        """Return a name that no other hole has."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}#{self._names[name]}"


def _words_of(annotation: Any) -> list[str]:
    """Return the texts of all values of a type; none if they are not known."""
    words: list[str] = []
    for kind in plain_types(annotation):
        if kind is bool:
            words += ["true", "false"]
        elif get_origin(kind) is Literal:
            words += [value.name if isinstance(value, Enum) else str(value) for value in get_args(kind)]
        elif isinstance(kind, type) and issubclass(kind, Enum):
            words += list(kind.__members__)
        elif kind is not type(None):
            return []
    return words
