"""`Way`: the IRs and conversions of a model, from its file to another file."""

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apass.core.conversions import route_between
from apass.core.ir_plugin import file_suffix, ir_names, ir_of_type, irs_of_suffix, known_suffixes
from apass.errors import ApassError, InputError
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline

__all__ = ["Way", "converted_type", "find_way", "possible_results"]


@dataclass(frozen=True, slots=True)
class Way:
    """The way of a model from its file through a pipeline to another file."""

    source: str | None
    """The name of the IR that the file is read as; None for the default one."""
    before: tuple[str, ...] = ()
    """The names of the conversions before the pipeline."""
    inner: str = ""
    """The name of the IR after these conversions."""
    after: tuple[str, ...] = ()
    """The names of the conversions after the pipeline."""
    result: str | None = None
    """The name of the IR that the result is written from; None if it is not known, or the default one of the suffix."""


def find_way(path: Path, result: str | None, pipeline: Pass[Any] | str | None) -> Way:
    """Return the way from a file to one of another suffix.

    Raises:
        InputError: if there is none.

    """
    suffix = file_suffix(path)
    sources = irs_of_suffix(suffix)
    if result is None or result == suffix:
        source = _ir_of(sources, pipeline)
        return Way(source, result=source)
    results = irs_of_suffix(result)
    first = _ir_of(ir_names(), pipeline)
    kind = converted_type(pipeline) if isinstance(pipeline, Pass) else None
    if first is None and kind is None:
        # The pipeline may take any modules, so it runs on those of the result.
        route = route_between(sources, results)
        if route is not None:
            return Way(route.source, route.passes, route.result, (), route.result)
        raise InputError(f"{path} cannot be converted to a {result} file; {possible_results(suffix)}")
    begin = route_between(sources, sources if first is None else [first])
    if begin is None:
        raise InputError(
            f"{path} cannot be converted to {first}, which the pipeline begins with; {possible_results(suffix)}"
        )
    last = begin.result if kind is None else ir_of_type(kind)
    if last is None:
        return Way(begin.source, begin.passes, begin.result)
    end = route_between([last], results)
    if end is None:
        raise InputError(
            f"{path} cannot be converted to a {result} file: the pipeline returns a module of {last}; "
            f"{possible_results(suffix)}"
        )
    return Way(begin.source, begin.passes, begin.result, end.passes, end.result)


def possible_results(suffix: str) -> str:
    """Return what files of a suffix can be converted to, for messages."""
    sources = irs_of_suffix(suffix)
    others = [other for other in known_suffixes() if other != suffix and route_between(sources, irs_of_suffix(other))]
    if not others:
        return f"no conversion of {suffix} files is installed"
    return f"{suffix} files can be converted to {', '.join(others)}, or with a pass of yours that has a result_type"


def converted_type(pipeline: Pass[Any]) -> type[Any] | None:
    """Return the class of a pipeline's results; None if no pass changes the IR."""
    for child in reversed(pipeline.children()):
        kind = converted_type(child)
        if kind is not None:
            return kind
    return pipeline.execution.result_type


def _ir_of(names: Collection[str], pipeline: Pass[Any] | str | None) -> str | None:
    """Return the first of some IRs that a pipeline has passes of, or None."""
    matches = _PREFIX.finditer(str(pipeline or ""))
    # A pass such as `xdsl.FromMLIR` reads another IR than its prefix.
    words = (word.lower() for match in matches for word in (match[2], match[1]) if word is not None)
    named = next((word for word in words if word in names), None)
    if named is not None or pipeline is None or len(names) < 2:
        return named
    kind = _first_module_type(pipeline)
    known = None if kind is None else ir_of_type(kind)
    return known if known in names else None


def _first_module_type(pipeline: Pass[Any] | str) -> type[Any] | None:
    """Return the class of modules that the first pass takes for which it is known."""
    stack: list[Pass[Any]] = []
    # The caller parses the text too, and reports its errors.
    with suppress(ApassError):
        stack = [parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline]
    while stack:
        top = stack.pop()
        if top.execution.module_type is not None:
            return top.execution.module_type
        stack += reversed(top.children())
    return None


_PREFIX: Final = re.compile(r"(?<![\w.])(\w+)\.(?:From(\w+))?")
"""The first part of a name such as `onnx.Inline`, and that of `mlir.FromXDSL` after `From`."""
