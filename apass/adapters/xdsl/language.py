"""The language of `xdsl-opt -p`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from apass.adapters.xdsl.passes.wrappers import PREFIX, XdslFunctionPass, XdslPass
from apass.errors import PassDefinitionError, PipelineSyntaxError
from apass.passes.base import Pass
from apass.passes.registry import pass_options
from apass.pipelines.languages import Element, Language, Option
from apass.util.typed_values import Bare

__all__ = ["LANGUAGE"]


def _parse(text: str, start: int, end: int) -> list[Element]:
    part = text[start:end].strip()
    if not part:
        return []
    try:
        specs = list(parse_pipeline(part))
    except ArgSpecParseError as error:
        # The lines are the source, a caret, and the reason.
        *_, caret, reason = str(error).rstrip().splitlines()
        offset = text.index(part, start) + caret.find("^")
        raise PipelineSyntaxError(f"xDSL cannot read it: {reason.strip()}", text, min(offset, end)) from None
    elements: list[Element] = []
    position = start
    for spec in specs:
        found = re.compile(re.escape(spec.name)).search(text, position, end)
        position = position if found is None else found.start()
        elements.append(Element(f"{PREFIX}{spec.name}", position, list(_options(spec, position))))
        position += len(spec.name)
    return elements


def _options(spec: ArgSpec, position: int) -> Iterator[Option]:
    """Iterate over the options of a pass. One without a value is a flag."""
    for key, values in spec.normalize_parameter_names().parameters.items():
        if not values and "bool" not in str(pass_options(f"{PREFIX}{spec.name}")[key].annotation):
            continue
        items = [value if isinstance(value, str) else Bare(str(value).lower()) for value in values]
        value: object = Bare("true") if not items else items[0] if len(items) == 1 else items
        yield Option(key, position, value, None, position)


def _write(passes: Sequence[Pass[Any]]) -> str:
    return ",".join(_native(passes))


def _native(passes: Sequence[Pass[Any]]) -> Iterator[str]:
    for pass_ in passes:
        if isinstance(pass_, XdslPass | XdslFunctionPass):
            yield str(pass_.library_pass.spec())
        else:
            raise PassDefinitionError(f"{pass_} has no form in the language of xdsl-opt; give only passes xdsl.*")


LANGUAGE: Final = Language(parse=_parse, write=_write)
"""The language."""
