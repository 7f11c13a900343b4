"""`parse_pipeline`: parses pipelines; the inverse of `str(Sequential(...))`."""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from apass.core.named_callables import find_callable, value_text
from apass.core.outside import Outside, outside_of
from apass.errors import (
    ApassError,
    PassDefinitionError,
    PassNotAllowedError,
    PassOrderError,
    PipelineSyntaxError,
    UnknownPassError,
    did_you_mean,
)
from apass.loading.entry_points import plugins
from apass.passes.base import Pass, not_a_pass
from apass.passes.registry import Recipe, find_recipe
from apass.passes.sequential import Sequential
from apass.pipelines.languages import Element, Option, find_language, languages_of
from apass.pipelines.syntax import Parser, prefix_of
from apass.util.typed_values import BARE_WORD, Bare, Entries

__all__ = ["UnknownPassSyntaxError", "as_pass", "check_allow", "is_plain", "parse_pipeline", "replace_options"]

R = TypeVar("R")

_ALLOWED_OPTION: Final = re.compile(rf"{BARE_WORD.pattern}\{{\w+\}}")
"""An option that is allowed."""

_NAME: Final = re.compile(r"[\w.-]+")
_NO_OPTIONS: Final[Mapping[str | None, int]] = MappingProxyType({})


class UnknownPassSyntaxError(PipelineSyntaxError, UnknownPassError):
    """The text of a pipeline contains the name of an unregistered pass."""


def parse_pipeline(
    text: str, *, allow: Iterable[str] | None = None, suffixes: Sequence[str] | None = None
) -> Sequential[Any]:
    r"""Return the Sequential of the passes in `text`; `str()` of it restores the text.

    An element is the name of a registered pass, optionally followed by options in braces and contained passes in
    parentheses: `FoldConstant,Repeat{times=3}(EliminateCommonSubexpr,Tune{device="cuda:0"})`. If the text consists of
    one `Sequential{...}(...)`, that one is returned. A text without passes gives an empty Sequential.

    The value of an option is a word, a JSON string, a list `[a,b]` or `a,b`, a mapping `{a=1,b=2}`, or passes `(A,B)`.
    It is converted to the type that the pass declares. Options may also be separated by white space, and their names
    may have hyphens for underscores. A comment extends from `#` to the end of the line.

    A text may be in the language of a compiler instead: `llvm:default<O2>,function(gvn)`,
    `mlir:builtin.module(func.func(cse))` or `xdsl:canonicalize,cse`. Within a text of apass, the language has
    parentheses: `Repeat{times=2}(llvm:(gvn,sroa))`. The prefix of the whole text may be left out if `suffixes` are
    given and only one language can read it.

    A function as an option is written as the name given to `register_callable`. A text names registered objects only:
    parsing imports installed plug-ins, and no other module.

    Parameters:
        text: the text of the pipeline.
        allow: the names of the passes and callables that the text may contain, or patterns such as `onnx.*`; None
            allows all. What reaches outside of the module (see `Outside`) is allowed by its own name only: an option as
            `xdsl.apply-pdl{pdl_file}`, a pass as `mlir.Reproducer`. A pass that an allowed pass requires may run
            without being in the list, and so may one that an extension adds to an allowed pipeline.
        suffixes: the suffixes of the files whose languages are tried if the text is not one of apass; empty for all
            languages, None for none.

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
    builder = _Builder(text, None if allow is None else check_allow(allow))
    prefix, start = prefix_of(text)
    if prefix:
        return builder.pipeline(find_language(prefix).parse(text, start, len(text)))
    if suffixes is None:
        return builder.pipeline(Parser(text).pipeline())
    return _parse_any(text, builder, suffixes)


def _parse_any(text: str, builder: "_Builder", suffixes: Sequence[str]) -> Sequential[Any]:
    """Return the passes of a text in the one language that can read it."""
    readings: dict[str, Sequential[Any]] = {}
    errors: dict[str, ApassError] = {}
    try:
        elements = Parser(text).pipeline()
        readings[""] = builder.pipeline(elements)
        # Names of passes of compilers have a prefix here, and none there.
        if not suffixes or any("." in element.name for element in elements):
            return readings[""]
    except (PipelineSyntaxError, UnknownPassError) as error:
        errors[""] = error
    for name in languages_of(suffixes):
        try:
            # A program that is not installed is a reason why a text cannot be read, as an unknown pass is.
            readings[name] = builder.pipeline(find_language(name).parse(text, 0, len(text)))
        except ApassError as error:
            errors[name] = error
    if len(readings) == 1:
        return next(iter(readings.values()))
    if readings:
        shown = [f"{name}:{text}" if name else f"{pipeline} of apass" for name, pipeline in readings.items()]
        raise PipelineSyntaxError(f"this is a pipeline in several languages; write {' or '.join(shown)}", text, 0)
    own = errors.pop("")
    if not (suffixes and errors and _may_be_native(text)):
        raise own
    # The languages of the files come first: a text of apass would name passes with a prefix.
    readings_of = [*((f"{name}:{text.strip()[:60]}", error) for name, error in errors.items()), ("one of apass", own)]
    lines = [f"as {reading}: {getattr(error, 'message', error)}" for reading, error in readings_of]
    position = getattr(next(iter(errors.values())), "position", 0)
    raise PipelineSyntaxError("\n".join(["no language can read this pipeline", *lines]), text, position)


def is_plain(text: str) -> bool:
    """Return whether a text can be in the language of apass only.

    Its syntax decides: no pass is looked up.
    """
    if prefix_of(text)[0]:
        return False
    try:
        elements = Parser(text).pipeline()
    except PipelineSyntaxError:
        return False
    # A language has names with dots too, such as `builtin.module`.
    prefixes = tuple(pattern.removesuffix("*") for pattern in plugins("apass.pass_modules") if pattern.endswith(".*"))
    return all(element.name.startswith(prefixes) for element in elements)


def _may_be_native(text: str) -> bool:
    """Return whether the first name of a text has no prefix."""
    return any("." not in name or "(" in text for name in _NAME.findall(text)[:1])


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
    old = Parser(pass_.text()).element()
    text = f"{old.name}{{{options}}}" if options.strip() else old.name
    parser = Parser(text)
    new = parser.element()
    if parser.next.kind != "end":
        raise parser.error(f"expected the end of the options, got {parser.next.shown()}")
    keys = {option.key for option in new.options}
    others = [replace(option, position=0, value_position=0) for option in old.options if option.key not in keys]
    return _Builder(text, None).make(
        replace(new, options=[*others, *new.options], passes=old.passes, passes_position=new.position)
    )


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

    def pipeline(self, elements: Sequence[Element]) -> Sequential[Any]:
        """Return the passes of elements; a Sequential alone is returned itself."""
        passes = [self.make(element) for element in elements]
        if len(passes) == 1 and elements[0].name == "Sequential" and isinstance(passes[0], Sequential):
            return passes[0]
        return Sequential(passes)

    def make(self, element: Element) -> Pass[Any]:
        """Return the pass that an element describes."""
        text = self.text
        # Before the lookup, which may import the plug-in that provides the pass.
        self.check_allowed("pass", element.name, element.position)
        with _errors_at(text, element.position):
            recipe = find_recipe(element.name, self.allow)
        options: dict[str, Any] = {}
        for given in element.options:
            # A name that Python reserves ends with an underscore here.
            option = replace(given, key=f"{given.key}_") if f"{given.key}_" in recipe.options else given
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

    def read(self, recipe: Recipe, option: Option, value: object) -> object:
        """Return the value of an option, converted to its type."""

        def find(name: str) -> object:
            # After the lookup: for a type such as `Callable | str`, an unknown name is a plain word.
            found = find_callable(name)
            self.check_allowed("callable", name, option.value_position)
            return found

        try:
            return recipe.read_option(option.key, value, find)
        except PassDefinitionError as error:
            if isinstance(value, Bare) and _is_valid(recipe, option.key, [value]):
                return recipe.read_option(option.key, [value], find)
            raise PipelineSyntaxError(str(error), self.text, _error_position(recipe, option)) from error

    def check_allowed(self, kind: str, name: str, position: int) -> None:
        """Raise PassNotAllowedError if `allow` has no pattern for a name."""
        if self.allow is None or any(fnmatchcase(name, pattern.partition("{")[0]) for pattern in self.allow):
            return
        hint = did_you_mean(name, self.allow, listing="allowed are: ") or "; nothing is allowed"
        raise PassNotAllowedError(f"the {kind} {name!r} is not allowed here{hint}", self.text, position, name)

    def check_option(self, recipe: Recipe, option: Option) -> None:
        """Raise PassNotAllowedError if an option reaches outside and is not allowed."""
        parameter, name = recipe.options.get(option.key), f"{recipe.name}{{{option.key}}}"
        outside = None if parameter is None else outside_of(parameter.annotation)
        if outside is not None and self.allow is not None and name not in self.allow:
            self.refuse(f"option {option.key!r} of pass {recipe.name!r}", outside, name, option.position)

    def check_outside(self, element: Element, pass_: Pass[Any], candidates: Iterable[Pass[Any]]) -> None:
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


def _error_position(recipe: Recipe, option: Option) -> int:
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
