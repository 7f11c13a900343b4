"""`Parser`: reads the text of a pipeline as elements."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from apass.errors import PipelineSyntaxError
from apass.pipelines.languages import Element, Option, find_language, language_names
from apass.util.typed_values import BARE_WORD, Bare, Entries

__all__ = ["MAX_DEPTH", "Parser", "prefix_of"]

R = TypeVar("R")

MAX_DEPTH: Final = 100
"""Maximum nesting depth of parentheses, brackets and braces."""

_TOKEN: Final = re.compile(
    rf"""(?P<blank>\s+|\#[^\n]*)|(?P<native>[A-Za-z]\w*:(?=\())|(?P<word>{BARE_WORD.pattern})
    |(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<angle><(?:[^<>]|<[^<>]*>)*>)|(?P<mark>[,=(){{}}[\]?|])""",
    re.VERBOSE,
)
_PREFIX: Final = re.compile(r"\s*([A-Za-z]\w*):(?!\()")
_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')


def prefix_of(text: str) -> tuple[str, int]:
    """Return the language before a text, or "", and the offset of the rest.

    >>> prefix_of("llvm:default<O2>")
    ('llvm', 5)
    """
    match = _PREFIX.match(text)
    if match is None or match[1] not in language_names():
        return "", 0
    return match[1], match.end()


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a string, a punctuation mark, or the end of the text."""

    kind: str
    """`"word"`, `"string"`, `"angle"`, `"native"`, the mark itself, or `"end"`."""
    text: str
    """The characters of the token."""
    position: int
    """The offset of the first character."""

    def shown(self) -> str:
        """Return the token as it is shown in messages."""
        return "the end of the text" if self.kind == "end" else self.text if self.kind == "string" else repr(self.text)


def _tokens(text: str) -> Iterator[_Token]:
    position = end = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            message = "this string has no closing quote" if text[position] == '"' else f"unexpected {text[position]!r}"
            raise PipelineSyntaxError(message, text, position)
        stop = match.end()
        if match.lastgroup != "blank":
            kind = match[0] if match.lastgroup == "mark" else str(match.lastgroup)
            if kind == "native":
                kind, stop = _native(text, match)
            yield _Token(kind, text[position:stop], position)
            end = stop
        position = stop
    # Errors at the end are shown after the last token, not after trailing white space and comments.
    yield _Token("end", "", end)


def _native(text: str, match: re.Match[str]) -> tuple[str, int]:
    """Return the kind and the end of a token such as `llvm:(gvn)`."""
    if match[0].removesuffix(":") not in language_names():
        return "word", match.end()
    depth = 0
    for bracket in _BRACKET.finditer(text, match.end()):
        depth += (bracket[0] == "(") - (bracket[0] == ")")
        if not depth:
            return "native", bracket.end()
    raise PipelineSyntaxError("this parenthesis is not closed", text, match.end())


class Parser:
    """A recursive-descent parser of one text."""

    choice_hint: ClassVar[str] = "; choices are for the space of `apass search`"
    """Added to the error at a `?` or `|`, which a pipeline does not have."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rest = _tokens(text)
        self.ahead: deque[_Token] = deque()
        self.end = 0
        self.next = next(self.rest)
        self.depth = 0

    def pipeline(self) -> list[Element]:
        """Return the elements of the text."""
        elements = _flat(self.list_of(self.elements, "end"))
        if self.next.kind != "end":
            raise self.error(f"expected ',' or the end of the text, got {self.next.shown()}")
        return elements

    def elements(self) -> list[Element]:
        """Parse an element, or those of another language: `llvm:(gvn,sroa)`."""
        token = self.next
        if token.kind != "native":
            return [self.element()]
        self.advance()
        name, _, _ = token.text.partition(":")
        start = token.position + len(name) + 2
        return find_language(name).parse(self.text, start, token.position + len(token.text) - 1)

    def element(self) -> Element:
        """Parse `name<parameters>{options}(elements)`."""
        name = self.take("word", "the name of a pass")
        options: list[Option] = []
        if self.next.kind == "angle":
            options += self.parameters(name)
        if self.next.kind == "{":
            options += self.options()
        if self.next.kind != "(":
            return Element(name.text, name.position, options, [], self.end)
        position = self.next.position
        return Element(name.text, name.position, options, _flat(self.enclosed(self.elements, ")")), position)

    def parameters(self, name: _Token) -> list[Option]:
        """Parse parameters in angle brackets, which LLVM has."""
        prefix, dot, _ = name.text.partition(".")
        language = find_language(prefix) if dot and prefix in language_names() else None
        if language is None or language.read_parameters is None:
            raise self.error(f"pass {name.text!r} takes options in braces, as {name.text}{{key=value}}")
        start = self.next.position
        while self.next.kind == "angle":
            self.advance()
        return language.read_parameters(name.text, self.text, start, self.end)

    def options(self) -> list[Option]:
        """Parse options in braces, separated by commas or white space."""
        opening, options = self.next, list[Option]()
        self.advance()
        while self.next.kind == "word":
            options.append(self.option())
            if self.next.kind == ",":
                comma = self.next
                self.advance()
                if self.next.kind == "}":
                    raise PipelineSyntaxError("nothing follows this comma; remove it", self.text, comma.position)
                if self.next.kind != "word":
                    self.take("word", "the name of an option")
        closing = "',' or '}'" if options else "the name of an option or '}'"
        self.take("}", f"{closing} to close the '{{' at character {opening.position}")
        return options

    def option(self) -> Option:
        """Parse `key=value`, `key=a,b` or `key`."""
        key = self.take("word", "the name of an option")
        name = key.text.replace("-", "_")
        if self.next.kind != "=":
            if self.next.kind not in (",", "}", "word"):
                raise self.error(f"expected '=' after the option {key.text!r}, got {self.next.shown()}")
            return Option(name, key.position, Bare("true"), None, key.position)
        self.advance()
        position = self.next.position
        if self.next.kind == "(":
            return Option(name, key.position, None, _flat(self.enclosed(self.elements, ")")), position)
        values = [self.value()]
        while self.next.kind == "," and self.peek(0).kind in ("word", "string") and self.peek(1).kind != "=":
            self.advance()
            values.append(self.value())
        return Option(name, key.position, values[0] if len(values) == 1 else values, None, position)

    def value(self) -> object:
        """Parse a word, a string, a list or a mapping."""
        if self.next.kind == "[":
            return self.enclosed(self.value, "]")
        if self.next.kind == "{":
            return self.mapping()
        if self.next.kind == "string":
            return self.string()
        return Bare(self.take("word", "a value").text)

    def mapping(self) -> Entries:
        """Parse `{key=value,...}`."""
        # A Bare key and a string of the same letters may differ, so the types are compared too.
        seen: set[tuple[type, str]] = set()
        positions: list[int] = []

        def entry() -> tuple[str, object]:
            position = self.next.position
            positions.append(position)
            key = self.string() if self.next.kind == "string" else Bare(self.take("word", "a key").text)
            if (type(key), key) in seen:
                raise PipelineSyntaxError(f"key {str(key)!r} is given twice", self.text, position)
            seen.add((type(key), key))
            self.take("=", f"'=' after the key {str(key)!r}")
            return key, self.value()

        pairs = self.enclosed(entry, "}")
        return Entries(tuple(pairs), tuple(positions))

    def string(self) -> str:
        """Parse a string in quotes."""
        token = self.next
        try:
            value: str = json.loads(token.text)
        except json.JSONDecodeError as error:
            raise PipelineSyntaxError(
                f"this is not a valid JSON string: {error.msg}", self.text, token.position + error.pos
            ) from None
        self.advance()
        return value

    def enclosed(self, parse_item: Callable[[], R], closing: str) -> list[R]:
        """Parse an opening mark, a list of items, and the closing mark."""
        opening = self.next
        if self.depth == MAX_DEPTH:
            raise self.error(f"nested more than {MAX_DEPTH} levels deep")
        self.depth += 1
        self.advance()
        items = self.list_of(parse_item, closing)
        self.depth -= 1
        self.take(closing, f"',' or {closing!r} to close the {opening.text!r} at character {opening.position}")
        return items

    def list_of(self, parse_item: Callable[[], R], closing: str) -> list[R]:
        """Parse items separated by commas, up to the closing mark."""
        if self.next.kind == closing:
            return []
        items = [parse_item()]
        while self.next.kind == ",":
            comma = self.next
            self.advance()
            if self.next.kind == closing:
                raise PipelineSyntaxError("nothing follows this comma; remove it", self.text, comma.position)
            items.append(parse_item())
        return items

    def take(self, kind: str, expected: str) -> _Token:
        """Consume a token of the given kind; `expected` describes it in messages."""
        token = self.next
        if token.kind != kind:
            raise self.error(f"expected {expected}, got {token.shown()}")
        self.advance()
        return token

    def advance(self) -> None:
        """Move to the next token."""
        self.end = self.next.position + len(self.next.text)
        self.next = self.ahead.popleft() if self.ahead else next(self.rest, self.next)

    def peek(self, index: int) -> _Token:
        """Return a token after the next one; the first has the index 0."""
        while len(self.ahead) <= index:
            last = self.ahead[-1] if self.ahead else self.next
            self.ahead.append(next(self.rest, last))
        return self.ahead[index]

    def error(self, message: str) -> PipelineSyntaxError:
        """Return an error at the next token."""
        hint = self.choice_hint if self.next.kind in ("?", "|") else ""
        return PipelineSyntaxError(message + hint, self.text, self.next.position)


def _flat(lists: list[list[Element]]) -> list[Element]:
    return [element for elements in lists for element in elements]
