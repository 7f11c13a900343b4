"""The language of `mlir-opt --pass-pipeline`."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, get_args, get_origin

from apass.adapters.mlir.catalogue import ROOT, option_pairs
from apass.adapters.mlir.passes import PREFIX, MLIRPass
from apass.adapters.mlir.running import Step, pipeline_text
from apass.errors import PassDefinitionError, PipelineSyntaxError, UnknownPassError
from apass.passes.base import Pass
from apass.passes.registry import pass_options
from apass.pipelines.languages import Element, Language, Option

__all__ = ["LANGUAGE"]

_NAME: Final = re.compile(r"[\w.-]+")
_ITEM: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}\[\]<>,]')


class _Reader:
    """A recursive-descent reader of a part of a text."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self.text = text
        self.position = start
        self.end = end

    def elements(self, path: tuple[str, ...], closing: str) -> Iterator[Element]:
        """Iterate over the passes on an operation, up to `closing` or the end."""
        while True:
            if closing and self.take(closing):
                return
            yield from self.element(path)
            if self.take(","):
                continue
            if closing and not self.take(closing):
                raise self.error(f"expected ',' or '{closing}'")
            return

    def element(self, path: tuple[str, ...]) -> Iterator[Element]:
        """Iterate over a pass with its options, or over the passes on an inner operation."""
        self.skip_space()
        match = _NAME.match(self.text, self.position, self.end)
        if match is None:
            raise self.error("expected the name of a pass or of an operation")
        start, self.position = self.position, match.end()
        if self.take("("):
            if path and match[0] == ROOT:
                raise PipelineSyntaxError(f"{ROOT} cannot be within another one", self.text, start)
            yield from self.elements((*path, match[0]), ")")
            return
        text_start = self.position + 1
        # The path begins with the module itself.
        yield _element(match[0], "/".join(path[1:]) or ROOT, self.options(), start, text_start, self.text)

    def options(self) -> str:
        """Return the text in braces, if there is one."""
        if not self.take("{"):
            return ""
        start, depth = self.position, 1
        while depth:
            if self.position >= self.end:
                raise self.error("expected '}'")
            char = self.text[self.position]
            depth += (char == "{") - (char == "}")
            self.position += 1
        return self.text[start : self.position - 1]

    def skip_space(self) -> None:
        """Move to the next character that is no white space."""
        while self.position < self.end and self.text[self.position].isspace():
            self.position += 1

    def take(self, char: str) -> bool:
        """Move after a character if it is the next one."""
        self.skip_space()
        if self.position >= self.end or self.text[self.position] != char:
            return False
        self.position += 1
        return True

    def error(self, message: str) -> PipelineSyntaxError:
        """Return an error at the position."""
        got = repr(self.text[self.position]) if self.position < self.end else "the end"
        return PipelineSyntaxError(f"{message}, got {got}", self.text, min(self.position, self.end))


def _parse(text: str, start: int, end: int) -> list[Element]:
    reader = _Reader(text, start, end)
    reader.skip_space()
    if reader.position >= end:
        return []
    # As for `--cse --canonicalize`, names alone are passes on the module.
    is_nested = re.compile(r"[\w.-]+\s*\(").match(text, reader.position, end) is not None
    elements = list(reader.elements(() if is_nested else (ROOT,), ""))
    reader.skip_space()
    if reader.position < end:
        raise reader.error("expected the end of the pipeline")
    if is_nested and not text[start:end].lstrip().startswith((ROOT, "any")):
        raise PipelineSyntaxError(f"a pipeline of mlir-opt must have the form {ROOT}(...)", text, start)
    return elements


def _element(name: str, anchor: str, options: str, position: int, options_position: int, text: str) -> Element:
    """Return a pass with the values of its options, converted to their types."""
    full_name = f"{PREFIX}{name}"
    try:
        parameters = pass_options(full_name)
    except UnknownPassError:
        # The error shows where the name is.
        return Element(full_name, position)
    found: list[Option] = []
    for key, value in option_pairs(options):
        place = max(text.find(key, options_position), position)
        option = next((other for other in parameters if other.rstrip("_") == key.replace("-", "_")), None)
        if option is None:
            raise PipelineSyntaxError(f"pass {full_name!r} has no option {key!r}", text, place)
        try:
            converted = _value(value, parameters[option].annotation, full_name, key)
        except PassDefinitionError as error:
            raise PipelineSyntaxError(str(error), text, place) from None
        if converted != parameters[option].default:
            found.append(Option(option, place, converted, None, place))
    if anchor != parameters["anchor"].default:
        found.append(Option("anchor", position, anchor, None, position))
    return Element(full_name, position, found)


def _value(text: str, tp: Any, name: str, key: str) -> Any:
    """Return the value of an option from its text in a pipeline."""
    if get_origin(tp) is Annotated:
        tp = get_args(tp)[0]
    if str(tp).startswith("list["):
        inner = text.removeprefix("{").removesuffix("}") if text.startswith("{") else text
        (item,) = tp.__args__
        return [_value(part, item, name, key) for part in _items(inner) if part]
    if len(text) > 1 and (text[0], text[-1]) in (("{", "}"), ('"', '"'), ("'", "'")):
        text = text[1:-1]
    try:
        if tp is bool:
            return {"true": True, "false": False, "1": True, "0": False}[text]
        return tp(text) if tp in (int, float) else text
    except (KeyError, ValueError):
        raise PassDefinitionError(f"option {key!r} of pass {name!r}: expected {tp.__name__}, got {text!r}") from None


def _items(text: str) -> Iterator[str]:
    """Iterate over the items of a list, with commas in brackets and strings."""
    start = depth = 0
    for token in _ITEM.finditer(text):
        depth += (token[0] in "({[<") - (token[0] in ")}]>")
        if token[0] == "," and not depth:
            yield text[start : token.start()]
            start = token.end()
    yield text[start:]


def _write(passes: Sequence[Pass[Any]]) -> str:
    return pipeline_text(list(_steps(passes)))


def _steps(passes: Sequence[Pass[Any]]) -> Iterator[Step]:
    for pass_ in passes:
        if isinstance(pass_, MLIRPass):
            yield from pass_.steps
        else:
            raise PassDefinitionError(f"{pass_} has no form in the language of mlir-opt; give only passes mlir.*")


LANGUAGE: Final = Language(parse=_parse, write=_write)
"""The language."""
