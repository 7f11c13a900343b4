"""`parse_pipeline`: parses pipelines; the inverse of `str(Sequential(...))`."""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from apass.core.named_callables import find_callable, value_text
from apass.core.outside import Outside, outside_of
from apass.errors import (
    PassDefinitionError,
    PassNotAllowedError,
    PassOrderError,
    PipelineSyntaxError,
    UnknownPassError,
    did_you_mean,
)
from apass.passes.base import Pass, not_a_pass
from apass.passes.registry import Recipe, find_recipe
from apass.passes.sequential import Sequential
from apass.util.typed_values import BARE_WORD, Bare, Entries

__all__ = ["UnknownPassSyntaxError", "as_pass", "check_allow", "parse_pipeline", "replace_options"]

R = TypeVar("R")

MAX_DEPTH: Final = 100
"""Maximum nesting depth of parentheses, brackets and braces."""

_ALLOWED_OPTION: Final = re.compile(rf"{BARE_WORD.pattern}\{{\w+\}}")
"""An option that is allowed."""

_NO_OPTIONS: Final[Mapping[str | None, int]] = MappingProxyType({})

_TOKEN: Final = re.compile(
    rf"""(?P<blank>\s+|\#[^\n]*)|(?P<word>{BARE_WORD.pattern})|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<mark>[,=(){{}}[\]])""",
    re.VERBOSE,
)


class UnknownPassSyntaxError(PipelineSyntaxError, UnknownPassError):
    """The text of a pipeline contains the name of an unregistered pass."""


def parse_pipeline(text: str, *, allow: Iterable[str] | None = None) -> Sequential[Any]:
    r"""Return the Sequential of the passes in `text`; `str()` of it restores the text.

    An element is the name of a registered pass, optionally followed by options in braces and contained passes in
    parentheses: `FoldConstant,Repeat{times=3}(EliminateCommonSubexpr,Tune{device="cuda:0"})`. If the text consists of
    one `Sequential{...}(...)`, that one is returned. A text without passes gives an empty Sequential.

    The value of an option is a word, a JSON string, a list `[a,b]`, a mapping `{a=1,b=2}`, or passes `(A,B)`. It is
    converted to the type that the pass declares. White space is ignored. A comment extends from `#` to the end of the
    line.

    A function as an option is written as the name given to `register_callable`. A text names registered objects only:
    parsing imports installed plug-ins, and no other module.

    Parameters:
        text: the text of the pipeline.
        allow: the names of the passes and callables that the text may contain, or patterns such as `onnx.*`; None
            allows all. What reaches outside of the module (see `Outside`) is allowed by its own name only: an option as
            `xdsl.apply-pdl{pdl_file}`, a pass as `mlir.Reproducer`. A pass that an allowed pass requires may run
            without being in the list, and so may one that an extension adds to an allowed pipeline.

    Raises:
        PipelineSyntaxError: if the text cannot be parsed, or an option is invalid; the message shows the location.
        UnknownPassError: if no pass is registered under a name; the error is also a PipelineSyntaxError.
        PassNotAllowedError: if `allow` does not contain a name; the error is also a PipelineSyntaxError.
        ValueError: if an element of `allow` names an option by a pattern.
        PassOrderError: if the `runs_after` or `runs_before` of a pass forbids the order.
        MissingExtraError: if a pass requires a library that is not installed.

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
        raise TypeError(f"parse_pipeline takes text, got {text!r}")
    elements = _Parser(text).pipeline()
    builder = _Builder(text, None if allow is None else check_allow(allow))
    passes = [builder.make(element) for element in elements]
    if len(passes) == 1 and elements[0].name == "Sequential" and isinstance(passes[0], Sequential):
        return passes[0]
    return Sequential(passes)


def replace_options(pass_: Pass[Any], options: Mapping[str, object] | str) -> Pass[Any]:
    """Return a registered pass with other values of some options.

    Parameters:
        pass_: the pass.
        options: the options to set, as a mapping or as in the text of a pipeline: `times=3,name=b`.

    Raises:
        TypeError: if `pass_` or a value has no text.
        PipelineSyntaxError: if the text of the options does not parse, or an option is unknown or invalid.
        UnknownPassError: if the pass is not registered.

    >>> import apass
    >>> pass_ = parse_pipeline("Repeat{times=3,name=r}(Sequential)").passes[0]
    >>> print(replace_options(pass_, "times=5"))
    Repeat{times=5,name=r}(Sequential)

    """
    if not isinstance(options, str):
        options = ",".join(f"{key}={value_text(value)}" for key, value in options.items())
    # The new options are part of the text that an error shows, and the others are not.
    old = _Parser(pass_.text()).element()
    text = f"{old.name}{{{options}}}" if options.strip() else old.name
    parser = _Parser(text)
    new = parser.element()
    if parser.next.kind != "end":
        raise parser.error(f"expected the end of the options, got {parser.next.shown()}")
    keys = {option.key for option in new.options}
    others = [replace(option, position=0, value_position=0) for option in old.options if option.key not in keys]
    return _Builder(text, None).make(
        replace(new, options=[*others, *new.options], passes=old.passes, passes_position=new.position)
    )


@dataclass(frozen=True, slots=True)
class _Token:
    """A word, a string, a punctuation mark, or the end of the text."""

    kind: str
    """`"word"`, `"string"`, the mark itself, or `"end"`."""
    text: str
    """The characters of the token."""
    position: int
    """The offset of the first character."""

    def shown(self) -> str:
        """Return the token as it is shown in messages."""
        return "the end of the text" if self.kind == "end" else self.text if self.kind == "string" else repr(self.text)


@dataclass(frozen=True, slots=True)
class _Element:
    """The syntax of one pass."""

    name: str
    position: int
    options: "list[_Option]"
    passes: "list[_Element]"
    passes_position: int
    """The offset of the opening parenthesis, or the one at which it is missing."""


@dataclass(frozen=True, slots=True)
class _Option:
    """The syntax of one option."""

    key: str
    position: int
    value: object
    """A Bare, a str, or a list or Entries of these; None if `passes` is set."""
    passes: "list[_Element] | None"
    """The passes in parentheses, if the value consists of passes."""
    value_position: int


def _tokens(text: str) -> Iterator[_Token]:
    position = end = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            message = "this string has no closing quote" if text[position] == '"' else f"unexpected {text[position]!r}"
            raise PipelineSyntaxError(message, text, position)
        if match.lastgroup != "blank":
            kind = match[0] if match.lastgroup == "mark" else str(match.lastgroup)
            yield _Token(kind, match[0], position)
            end = match.end()
        position = match.end()
    # Errors at the end are shown after the last token, not after trailing white space and comments.
    yield _Token("end", "", end)


class _Parser:
    """A recursive-descent parser of one text, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.rest = _tokens(text)
        self.end = 0
        self.next = next(self.rest)
        self.depth = 0

    def pipeline(self) -> list[_Element]:
        """Return the elements of the text."""
        elements = self.list_of(self.element, "end")
        if self.next.kind != "end":
            raise self.error(f"expected ',' or the end of the text, got {self.next.shown()}")
        return elements

    def element(self) -> _Element:
        """Parse `name{options}(elements)`."""
        name = self.take("word", "the name of a pass")
        options = self.enclosed(self.option, "}") if self.next.kind == "{" else []
        if self.next.kind != "(":
            return _Element(name.text, name.position, options, [], self.end)
        position = self.next.position
        return _Element(name.text, name.position, options, self.enclosed(self.element, ")"), position)

    def option(self) -> _Option:
        """Parse `key=value`."""
        key = self.take("word", "the name of an option")
        self.take("=", f"'=' after the option {key.text!r}")
        position = self.next.position
        if self.next.kind == "(":
            return _Option(key.text, key.position, None, self.enclosed(self.element, ")"), position)
        return _Option(key.text, key.position, self.value(), None, position)

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
        self.next = next(self.rest, self.next)

    def error(self, message: str) -> PipelineSyntaxError:
        """Return an error at the next token."""
        return PipelineSyntaxError(message, self.text, self.next.position)


def check_allow(allow: Iterable[str]) -> tuple[str, ...]:
    """Return the elements of `allow`, as `parse_pipeline` takes it.

    Raises:
        TypeError: if it is no list of texts.
        ValueError: if an element names an option by a pattern.

    """
    if isinstance(allow, str):
        raise TypeError(f"allow must be a list of names or patterns, got {allow!r}; write [{allow!r}]")
    patterns = tuple(allow)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise TypeError(f"allow must be a list of names or patterns, but contains {pattern!r}")
        if "{" in pattern and not _ALLOWED_OPTION.fullmatch(pattern):
            raise ValueError(
                f"allow names an option as in 'xdsl.apply-pdl{{pdl_file}}', without a pattern; got {pattern!r}"
            )
    return patterns


def as_pass(call: str, value: Pass[Any] | str) -> Pass[Any]:
    """Return a pass, or the pipeline that a text describes.

    Parameters:
        call: the call with its arguments in order, for messages; the pass is `pass_`.
        value: what the caller received as a pass.

    Raises:
        TypeError: if the value is neither a pass nor a text.
        PipelineSyntaxError: if the text does not parse.
        UnknownPassError: if the text names an unknown pass.

    """
    if isinstance(value, Pass):
        return value
    if isinstance(value, str):
        return parse_pipeline(value)
    raise not_a_pass(f"{call} takes a pass or the text of a pipeline as pass_", value)


class _Builder:
    """Creates the passes of one text."""

    def __init__(self, text: str, allow: tuple[str, ...] | None) -> None:
        self.text = text
        self.allow = allow

    def make(self, element: _Element) -> Pass[Any]:
        """Return the pass that an element describes."""
        text = self.text
        # Before the lookup, which may import the plug-in that provides the pass.
        self.check_allowed("pass", element.name, element.position)
        with _errors_at(text, element.position):
            recipe = find_recipe(element.name, self.allow)
        options: dict[str, Any] = {}
        for option in element.options:
            with _errors_at(text, option.position):
                recipe.check_option(option.key)
            if option.key in options:
                raise PipelineSyntaxError(f"option {option.key!r} is given twice", text, option.position)
            self.check_option(recipe, option)
            value = option.value if option.passes is None else [self.make(inner) for inner in option.passes]
            with _errors_at(text, option.value_position):
                options[option.key] = self.read(recipe, option, value)
        with _errors_at(text, element.passes_position):
            recipe.check_passes(bool(element.passes))
        passes = [self.make(inner) for inner in element.passes]
        with _errors_at(text, element.position, {option.key: option.value_position for option in element.options}):
            pass_ = recipe.make(options, passes or None)
        # The passes that the text gives it are allowed already.
        has_given = passes or any(option.passes for option in element.options)
        self.check_outside(element, pass_, [pass_] if has_given else _nested(pass_))
        return pass_

    def read(self, recipe: Recipe, option: _Option, value: object) -> object:
        """Return the value of an option, converted to its type."""

        def find(name: str) -> object:
            # After the lookup: for a type such as `Callable | str`, an unknown name is a plain word.
            found = find_callable(name)
            self.check_allowed("callable", name, option.value_position)
            return found

        try:
            return recipe.read_option(option.key, value, find)
        except PassDefinitionError as error:
            raise PipelineSyntaxError(str(error), self.text, _error_position(recipe, option)) from error

    def check_allowed(self, kind: str, name: str, position: int) -> None:
        """Raise PassNotAllowedError if `allow` has no pattern for a name."""
        if self.allow is None or any(fnmatchcase(name, pattern.partition("{")[0]) for pattern in self.allow):
            return
        hint = did_you_mean(name, self.allow, listing="allowed are: ") or "; nothing is allowed"
        raise PassNotAllowedError(f"the {kind} {name!r} is not allowed here{hint}", self.text, position, name)

    def check_option(self, recipe: Recipe, option: _Option) -> None:
        """Raise PassNotAllowedError if an option reaches outside and is not allowed."""
        parameter, name = recipe.options.get(option.key), f"{recipe.name}{{{option.key}}}"
        outside = None if parameter is None else outside_of(parameter.annotation)
        if outside is not None and self.allow is not None and name not in self.allow:
            self.refuse(f"option {option.key!r} of pass {recipe.name!r}", outside, name, option.position)

    def check_outside(self, element: _Element, pass_: Pass[Any], candidates: Iterable[Pass[Any]]) -> None:
        """Raise PassNotAllowedError if a pass reaches outside and is not allowed."""
        if self.allow is None or element.name in self.allow:
            return
        reaching = next((inner for inner in candidates if inner.execution.outside is not None), None)
        if reaching is not None and reaching.execution.outside is not None:
            inside = "" if reaching is pass_ else f"{reaching.info.name!r} in "
            self.refuse(
                f"the pass {inside}{element.name!r}", reaching.execution.outside, element.name, element.position
            )

    def refuse(self, what: str, outside: Outside, name: str, position: int) -> NoReturn:
        """Raise PassNotAllowedError for what reaches outside of the module."""
        message = f"{what} {outside.value}, which is not allowed here; name {name!r} to allow it"
        raise PassNotAllowedError(message, self.text, position, name)


def _nested(pass_: Pass[Any]) -> Iterator[Pass[Any]]:
    """Iterate over a pass and the passes inside of it."""
    yield pass_
    # Not `children`, which are those that a text shows.
    for branch in pass_.branches():
        for inner in branch:
            yield from _nested(inner)


def _error_position(recipe: Recipe, option: _Option) -> int:
    """Return the offset of an invalid value, or of the invalid pair of a mapping."""
    value = option.value
    # If an empty mapping is valid, the error is in one of the pairs: try each of them alone.
    if isinstance(value, Entries) and _is_valid(recipe, option.key, Entries(())):
        for pair, position in zip(value.pairs, value.positions, strict=True):
            if not _is_valid(recipe, option.key, Entries((pair,))):
                return position
    return option.value_position


def _is_valid(recipe: Recipe, key: str, value: object) -> bool:
    try:
        recipe.read_option(key, value)
    except PassDefinitionError:
        return False
    return True


@contextmanager
def _errors_at(text: str, position: int, options: Mapping[str | None, int] = _NO_OPTIONS) -> Generator[None]:
    """Convert errors in the block to errors that show their position in `text`.

    Parameters:
        text: the text of the pipeline.
        position: the offset at which errors are shown.
        options: the offset of the value of each option, for errors that name an option.

    """
    try:
        yield
    except (PipelineSyntaxError, PassOrderError):
        raise  # it has the position in another text, which the factory of a pass parsed, or concerns several passes
    except UnknownPassError as error:
        raise UnknownPassSyntaxError(str(error), text, position) from error
    except PassDefinitionError as error:
        raise PipelineSyntaxError(str(error), text, options.get(error.option, position)) from error
    except Exception as error:
        error.add_note(f"in the pipeline {text!r}, at character {position}")
        raise
