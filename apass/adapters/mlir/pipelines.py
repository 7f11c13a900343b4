"""Pipelines and reproducers of `mlir-opt` as passes of apass."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin

from apass.adapters.mlir.catalogue import ROOT, option_pairs
from apass.adapters.mlir.module import MLIRModule
from apass.core.context import PassContext
from apass.core.outside import Outside
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError, PassDefinitionError, UnknownPassError
from apass.passes.base import ModulePass, Pass
from apass.passes.registry import get_pass, pass_options
from apass.passes.sequential import Sequential

__all__ = ["RunReproducer", "has_balanced_braces", "parse_mlir_pipeline", "read_mlir_reproducer"]

PREFIX: Final = "mlir."
"""The prefix of the names of the passes."""

_METADATA: Final = re.compile(r"\{-#.*?#-\}", re.DOTALL)
_PIPELINE: Final = re.compile(r'mlir_reproducer:\s*\{.*?pipeline:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BRACE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')
_NAME: Final = re.compile(r"[\w.-]+")
_ITEM: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[(){}\[\]<>,]')


def parse_mlir_pipeline(text: str) -> Sequential[MLIRModule]:
    """Return the passes of a pipeline in the syntax of `mlir-opt --pass-pipeline`.

    Parameters:
        text: the pipeline, such as `builtin.module(func.func(cse),canonicalize{top-down=false})`.

    Raises:
        PassDefinitionError: if the text cannot be parsed, or names an unknown pass or option.

    """
    parser = _Parser(text)
    elements = parser.elements("")
    if parser.position < len(text.rstrip()):
        raise parser.error("expected the end of the pipeline")
    if len(elements) != 1 or elements[0].name != ROOT or elements[0].children is None:
        raise PassDefinitionError(f"a pipeline of mlir-opt must have the form {ROOT}(...), got {text!r}")
    return Sequential(list(_passes(elements[0].children, [])), name=f"{PREFIX}Pipeline")


def read_mlir_reproducer(mod: MLIRModule) -> tuple[MLIRModule, Sequential[MLIRModule]]:
    """Return the module and the passes of a reproducer that `mlir-opt` wrote.

    `mlir-opt --mlir-pass-pipeline-crash-reproducer=FILE` writes a module, and the pipeline as its metadata.

    Raises:
        AdapterError: if the module has no such metadata.
        PassDefinitionError: if the pipeline names an unknown pass or option.

    """
    metadata = _METADATA.search(mod.text)
    pipeline = None if metadata is None else _PIPELINE.search(metadata.group())
    if metadata is None or pipeline is None:
        name = mod.source or "the module"
        raise AdapterError(f"{name} is no reproducer of mlir-opt: it has no mlir_reproducer metadata")
    rest = _without_reproducer(metadata.group())
    text = f"{mod.text[: metadata.start()].rstrip()}\n{rest}{mod.text[metadata.end() :].lstrip()}"
    return MLIRModule(text, mod.source), parse_mlir_pipeline(re.sub(r"\\(.)", r"\1", pipeline[1]))


def _without_reproducer(metadata: str) -> str:
    """Return the metadata of a file without the pipeline; "" if nothing is left."""
    for key in ("mlir_reproducer", "external_resources"):
        match = re.search(rf"\b{key}:\s*\{{", metadata)
        if match is None or (key == "external_resources" and metadata[match.end() :].lstrip()[:1] != "}"):
            continue
        end, depth = match.end(), 1
        for token in _BRACE.finditer(metadata, match.end()):
            depth += (token[0] == "{") - (token[0] == "}")
            end = token.end()
            if not depth:
                break
        before, after = metadata[: match.start()].rstrip(), metadata[end:].lstrip()
        # One of the commas around it goes as well.
        metadata = f"{before.removesuffix(',')}\n{after if before.endswith(',') else after.removeprefix(',')}"
    return "" if re.fullmatch(r"\{-#\s*#-\}", metadata) else f"{metadata}\n"


class RunReproducer(ModulePass[MLIRModule]):
    """Runs the pipeline that a reproducer of `mlir-opt` contains on its module.

    Each pass runs as one of apass. With `--reproducer`, the pass that fails therefore writes a reproducer of apass.
    """

    info = PassInfo(0, f"{PREFIX}Reproducer")
    outside = Outside.CODE

    async def transform_module(self, mod: MLIRModule, ctx: PassContext) -> MLIRModule:
        """Run the passes of the reproducer.

        Raises:
            AdapterError: if the module is no reproducer.

        """
        module, pipeline = read_mlir_reproducer(mod)
        return await pipeline(module)


@dataclass(frozen=True, slots=True)
class _Element:
    """An element of a pipeline: a pass with its options, or an operation with passes."""

    name: str
    """The name of the pass or of the operation."""
    options: str = ""
    """The text in braces."""
    children: "list[_Element] | None" = None
    """The passes that run on the operation; None for a pass."""


class _Parser:
    """A recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def elements(self, closing: str) -> list[_Element]:
        """Parse elements separated by commas, up to `closing`."""
        found: list[_Element] = []
        while True:
            self.skip_space()
            if closing and self.take(closing):
                return found
            found.append(self.element())
            self.skip_space()
            if self.take(","):
                continue
            if closing and not self.take(closing):
                raise self.error(f"expected ',' or '{closing}'")
            return found

    def element(self) -> _Element:
        match = _NAME.match(self.text, self.position)
        if match is None:
            raise self.error("expected the name of a pass or of an operation")
        self.position = match.end()
        self.skip_space()
        if self.take("("):
            return _Element(match.group(), children=self.elements(")"))
        return _Element(match.group(), self.options())

    def options(self) -> str:
        """Return the text in braces, if there is one."""
        if not self.take("{"):
            return ""
        start, depth = self.position, 1
        while depth:
            if self.position >= len(self.text):
                raise self.error("expected '}'")
            char = self.text[self.position]
            depth += (char == "{") - (char == "}")
            self.position += 1
        return self.text[start : self.position - 1]

    def skip_space(self) -> None:
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1

    def take(self, char: str) -> bool:
        if not self.text.startswith(char, self.position):
            return False
        self.position += 1
        return True

    def error(self, message: str) -> PassDefinitionError:
        return PassDefinitionError(f"{message} at character {self.position} of the pipeline {self.text!r}")


def has_balanced_braces(text: str) -> bool:
    """Return whether each closing brace follows its opening one, and each is closed."""
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return depth == 0


def _passes(elements: Sequence[_Element], path: list[str]) -> Iterator[Pass[MLIRModule]]:
    """Iterate over the passes of elements that run on nested operations."""
    for element in elements:
        if element.children is not None:
            yield from _passes(element.children, [*path, element.name])
        else:
            yield _pass(element, "/".join(path) or ROOT)


def _pass(element: _Element, anchor: str) -> Pass[MLIRModule]:
    name = f"{PREFIX}{element.name}"
    try:
        parameters = pass_options(name)
    except UnknownPassError as error:
        raise PassDefinitionError(str(error)) from error
    options: dict[str, Any] = {} if anchor == parameters["anchor"].default else {"anchor": anchor}
    for key, text in option_pairs(element.options):
        option = next((other for other in parameters if other.rstrip("_") == key.replace("-", "_")), None)
        if option is None:
            raise PassDefinitionError(f"pass {name!r} has no option {key!r}")
        value = _value(text, parameters[option].annotation, name, key)
        if value != parameters[option].default:
            options[option] = value
    return get_pass(name, **options)


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
