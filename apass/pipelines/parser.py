"""`parse_pipeline`: pipelines from text, the inverse of `str(Sequential(...))`."""

import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from apass.errors import PassDefinitionError, PipelineSyntaxError, UnknownPassError
from apass.passes.base import Pass
from apass.passes.registry import Recipe, find_recipe
from apass.passes.sequential import Sequential
from apass.util.typed_values import BARE_WORD, Bare, Entries

__all__ = ["UnknownPassSyntaxError", "parse_pipeline"]

R = TypeVar("R")

MAX_DEPTH: Final = 100
"""How deep parentheses and brackets may be nested."""

_NO_OPTIONS: Final[Mapping[str | None, int]] = MappingProxyType({})

_TOKEN: Final = re.compile(
    rf"""(?P<blank>\s+|\#[^\n]*)|(?P<word>{BARE_WORD.pattern})|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<mark>[,=(){{}}[\]])""",
    re.VERBOSE,
)


class UnknownPassSyntaxError(PipelineSyntaxError, UnknownPassError):
    """The text of a pipeline names a pass that is not registered."""


def parse_pipeline(text: str) -> Sequential[Any]:
    r"""Return the Sequential of the passes that `text` lists; `str()` of it gives the text back.

    An element is the name of a registered pass, then its options in braces and the passes that it is made of in
    parentheses, where it has any: `FoldConstant,Repeat{times=3}(EliminateCommonSubexpr,Tune{device="cuda:0"})`. A text
    that is one `Sequential{...}(...)` gives that one; a text without passes gives an empty one.

    The value of an option is a word, a string in quotes as in JSON, a list `[a,b]`, a mapping `{a=1,b=2}`, or passes
    `(A,B)`, and is read as the type that the pass declares. Blanks, line ends and a comma after the last element make
    no difference; a comment goes from `#` to the end of the line.

    An option that is a function is written as module and name, and reading it imports the module. So a text from
    somebody whom you would not let run code is not to be parsed.

    Raises:
        PipelineSyntaxError: if the text does not parse, or an option does not fit; it shows where.
        UnknownPassError: if no pass is registered under a name; it is a PipelineSyntaxError too.
        MissingExtraError: if a pass needs a library that is not installed.

    >>> str(parse_pipeline("Sequential { opt_level=2 } (Sequential, Sequential)  # three in all"))
    'Sequential{opt_level=2}(Sequential,Sequential)'
    >>> parse_pipeline("Sequential{name=a,\n  name=b}")
    Traceback (most recent call last):
        ...
    apass.errors.PipelineSyntaxError: option 'name' is given twice (at character 21)
          name=b}
          ^

    """
    if not isinstance(text, str):
        raise TypeError(f"parse_pipeline takes text, not {text!r}")
    elements = _Parser(text).pipeline()
    passes = [_make(text, element) for element in elements]
    if len(passes) == 1 and elements[0].name == "Sequential" and isinstance(passes[0], Sequential):
        return passes[0]
    return Sequential(passes)


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of the text: a word, a string, a mark, or the end."""

    kind: str
    """`"word"`, `"string"`, the mark itself, or `"end"`."""
    text: str
    """Its letters."""
    position: int
    """Where it begins."""

    def shown(self) -> str:
        """Return it as a message names it."""
        return "the end of the text" if self.kind == "end" else self.text if self.kind == "string" else repr(self.text)


@dataclass(frozen=True, slots=True)
class _Element:
    """One pass as it is written."""

    name: str
    position: int
    options: "list[_Option]"
    passes: "list[_Element]"
    passes_position: int
    """Where the parenthesis before its passes is, or would be."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One option as it is written."""

    key: str
    position: int
    value: object
    """A Bare, a str, or a list or Entries of such."""
    passes: "list[_Element] | None"
    """Where they are what is given, in place of a value."""
    value_position: int


def _tokens(text: str) -> Iterator[_Token]:
    position = end = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            wrong = "this string has no closing quote" if text[position] == '"' else f"unexpected {text[position]!r}"
            raise PipelineSyntaxError(wrong, text, position)
        if match.lastgroup != "blank":
            kind = match[0] if match.lastgroup == "mark" else str(match.lastgroup)
            yield _Token(kind, match[0], position)
            end = match.end()
        position = match.end()
    # Where something is missing, not after the blanks and comments that may follow.
    yield _Token("end", "", end)


class _Parser:
    """Goes through the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rest = _tokens(text)
        self.end = 0
        self.next = next(self.rest)
        self.depth = 0

    def pipeline(self) -> list[_Element]:
        """Return the elements of the text."""
        found = self.list_of(self.element, "end")
        if self.next.kind != "end":
            raise self.error(f"expected ',' or the end of the text, not {self.next.shown()}")
        return found

    def element(self) -> _Element:
        """Read `name{options}(elements)`."""
        name = self.take("word", "the name of a pass")
        options = self.enclosed(self.option, "}") if self.next.kind == "{" else []
        if self.next.kind != "(":
            return _Element(name.text, name.position, options, [], self.end)
        position = self.next.position
        return _Element(name.text, name.position, options, self.enclosed(self.element, ")"), position)

    def option(self) -> _Option:
        """Read `key=value`."""
        key = self.take("word", "the name of an option")
        self.take("=", f"'=' after the option {key.text!r}")
        position = self.next.position
        if self.next.kind == "(":
            return _Option(key.text, key.position, None, self.enclosed(self.element, ")"), position)
        return _Option(key.text, key.position, self.value(), None, position)

    def value(self) -> object:
        """Read a word, a string, a list or a mapping."""
        if self.next.kind == "[":
            return self.enclosed(self.value, "]")
        if self.next.kind == "{":
            return self.mapping()
        if self.next.kind == "string":
            return self.string()
        return Bare(self.take("word", "a value").text)

    def mapping(self) -> Entries:
        """Read `{key=value,...}`."""
        known: set[tuple[type, str]] = set()
        positions: list[int] = []

        def entry() -> tuple[str, object]:
            position = self.next.position
            positions.append(position)
            key = self.string() if self.next.kind == "string" else Bare(self.take("word", "a key").text)
            if (type(key), key) in known:
                raise PipelineSyntaxError(f"key {str(key)!r} is given twice", self.text, position)
            known.add((type(key), key))
            self.take("=", f"'=' after the key {str(key)!r}")
            return key, self.value()

        pairs = self.enclosed(entry, "}")
        return Entries(tuple(pairs), tuple(positions))

    def string(self) -> str:
        """Read a string in quotes."""
        token = self.next
        try:
            value: str = json.loads(token.text)
        except json.JSONDecodeError as error:
            raise PipelineSyntaxError(
                f"this string is not as in JSON: {error.msg}", self.text, token.position + error.pos
            ) from None
        self.advance()
        return value

    def enclosed(self, one: Callable[[], R], closing: str) -> list[R]:
        """Read an opening mark, what it encloses, and the closing mark."""
        opening = self.next
        if self.depth == MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} deep")
        self.depth += 1
        self.advance()
        found = self.list_of(one, closing)
        self.depth -= 1
        self.take(closing, f"',' or {closing!r} to close the {opening.text!r} at character {opening.position}")
        return found

    def list_of(self, one: Callable[[], R], closing: str) -> list[R]:
        """Read what stands between commas up to the closing mark."""
        found: list[R] = []
        while self.next.kind != closing:
            found.append(one())
            if self.next.kind != ",":
                break
            self.advance()
        return found

    def take(self, kind: str, what: str) -> _Token:
        """Read a token of one kind."""
        token = self.next
        if token.kind != kind:
            raise self.error(f"expected {what}, not {token.shown()}")
        self.advance()
        return token

    def advance(self) -> None:
        """Go on to the next token."""
        self.end = self.next.position + len(self.next.text)
        self.next = next(self.rest, self.next)

    def error(self, message: str) -> PipelineSyntaxError:
        """Return an error at the next token."""
        return PipelineSyntaxError(message, self.text, self.next.position)


def _make(text: str, element: _Element) -> Pass[Any]:
    """Return the pass that an element means."""
    with _errors_at(text, element.position):
        recipe = find_recipe(element.name)
    options: dict[str, Any] = {}
    for option in element.options:
        with _errors_at(text, option.position):
            recipe.check_option(option.key)
        if option.key in options:
            raise PipelineSyntaxError(f"option {option.key!r} is given twice", text, option.position)
        value = option.value if option.passes is None else [_make(text, one) for one in option.passes]
        with _errors_at(text, option.value_position):
            options[option.key] = _read(text, recipe, option, value)
    with _errors_at(text, element.passes_position):
        recipe.check_passes(bool(element.passes))
    passes = [_make(text, one) for one in element.passes]
    with _errors_at(text, element.position, {option.key: option.value_position for option in element.options}):
        return recipe.make(options, passes or None)


def _read(text: str, recipe: Recipe, option: _Option, value: object) -> object:
    """Return the value of an option as one of its type."""
    try:
        return recipe.read_option(option.key, value)
    except PassDefinitionError as error:
        raise PipelineSyntaxError(str(error), text, _place_of_error(recipe, option)) from error


def _place_of_error(recipe: Recipe, option: _Option) -> int:
    """Return where the value of an option does not fit: at a pair of a mapping, if it is that which does not."""
    value = option.value
    if isinstance(value, Entries) and _fits(recipe, option.key, Entries(())):
        for pair, position in zip(value.pairs, value.positions, strict=True):
            if not _fits(recipe, option.key, Entries((pair,))):
                return position
    return option.value_position


def _fits(recipe: Recipe, key: str, value: object) -> bool:
    try:
        recipe.read_option(key, value)
    except PassDefinitionError:
        return False
    return True


@contextmanager
def _errors_at(text: str, position: int, options: Mapping[str | None, int] = _NO_OPTIONS) -> Generator[None]:
    """Show where in `text` the errors belong that come of what is written there, those of an option at its value."""
    try:
        yield
    except PipelineSyntaxError:
        raise  # of a text that the factory of a pass has parsed in its turn
    except UnknownPassError as error:
        raise UnknownPassSyntaxError(str(error), text, position) from error
    except PassDefinitionError as error:
        raise PipelineSyntaxError(str(error), text, options.get(error.option, position)) from error
    except Exception as error:
        error.add_note(f"in the pipeline {text!r}, at character {position}")
        raise
