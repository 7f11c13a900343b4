"""`pipeline_shrinkings`: the parts of a pipeline that can be removed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from apass.core.context import PassContext
from apass.passes.base import Pass, is_enabled
from apass.passes.class_definition import options_of_constructor
from apass.passes.registry import make_pass
from apass.passes.sequential import Sequential
from apass.util.delta_debugging import Shrinking

__all__ = ["as_row", "joined", "pipeline_shrinkings"]

_Edit = Callable[[int, Pass[Any], Sequence[Pass[Any]]], Iterable[Pass[Any]]]
"""Takes the number of a contained pass, the pass, and its edited inner passes; returns what replaces it."""


def as_row(pass_: Pass[Any]) -> Sequential[Any]:
    """Return a pass as a Sequential without name and options; itself if it is one."""
    if isinstance(pass_, Sequential) and pass_.spec == ("Sequential", {}):
        return pass_
    return Sequential([pass_])


def joined(passes: Sequence[Pass[Any]], ctx: PassContext) -> Pass[Any]:
    """Return one pass that runs what a Sequential of the passes runs in a context."""
    # A pass that is called alone runs regardless of its level.
    return passes[0] if len(passes) == 1 and is_enabled(passes[0], ctx) else Sequential(passes)


def pipeline_shrinkings(pass_: Pass[Any], ctx: PassContext) -> Iterator[Shrinking[Pass[Any]]]:
    """Iterate over the ways to make a pipeline smaller.

    These are to remove passes; to replace a pass that contains others, such as a Repeat, by these; and to give options
    their default values. A registered pipeline, such as `onnx.Default`, is one that contains its passes. The context is
    the one that the pipeline runs in.

    >>> from apass import PassContext, parse_pipeline
    >>> pipeline = parse_pipeline("Sequential,Repeat{times=3}(Sequential)")
    >>> passes, containers, options = pipeline_shrinkings(pipeline, PassContext())
    >>> str(passes.without(frozenset({0})))
    'Repeat{times=3}(Sequential)'
    >>> str(containers.without(frozenset({0})))
    'Sequential,Sequential'
    >>> str(options.without(frozenset({0})))
    'Sequential,Repeat(Sequential)'
    """
    row = as_row(pass_)

    def edited(edit: _Edit) -> Pass[Any]:
        passes = _edited_inner(row, edit, count())
        # A pass that is no row runs regardless of its level.
        return passes[0] if row is not pass_ and len(passes) == 1 else joined(passes, ctx)

    elements = list(_elements(row))
    yield Shrinking("passes", len(elements), lambda numbers: edited(_removing(numbers)))
    containers = [number for number, element in enumerate(elements) if _inner(element)]
    yield Shrinking(
        "passes that contain others",
        len(containers),
        lambda numbers: edited(_unwrapping({containers[number] for number in numbers})),
    )
    options = [(number, key) for number, element in enumerate(elements) for key in _options(element)[1]]
    yield Shrinking(
        "options of passes",
        len(options),
        lambda numbers: edited(_resetting({options[number] for number in numbers})),
    )


def _inner(pass_: Pass[Any]) -> Sequence[Pass[Any]]:
    """Return the passes inside a pass, also those of a registered pipeline."""
    return pass_.passes if isinstance(pass_, Sequential) else pass_.children()


def _elements(pass_: Pass[Any]) -> Iterator[Pass[Any]]:
    """Iterate over all contained passes, each before those inside it."""
    for inner in _inner(pass_):
        yield inner
        yield from _elements(inner)


def _options(pass_: Pass[Any]) -> tuple[str, dict[str, object]]:
    """Return the name and the options of a pass in its text."""
    name, options = pass_.spec or (pass_.info.name, options_of_constructor(pass_))
    return name, dict(options)


def _edited_inner(pass_: Pass[Any], edit: _Edit, numbers: Iterator[int]) -> list[Pass[Any]]:
    result: list[Pass[Any]] = []
    for inner in _inner(pass_):
        number = next(numbers)
        # These are replaced even if `edit` drops the pass: each of them has a number.
        passes = _edited_inner(inner, edit, numbers)
        result += edit(number, inner, passes)
    return result


def _removing(removed: frozenset[int]) -> _Edit:
    return lambda number, pass_, inner: () if number in removed else (_with_inner(pass_, inner),)


def _unwrapping(containers: set[int]) -> _Edit:
    return lambda number, pass_, inner: inner if number in containers else (_with_inner(pass_, inner),)


def _resetting(removed: set[tuple[int, str]]) -> _Edit:
    def edit(number: int, pass_: Pass[Any], inner: Sequence[Pass[Any]]) -> Iterable[Pass[Any]]:
        name, options = _options(pass_)
        kept = {key: value for key, value in options.items() if (number, key) not in removed}
        return (_with_inner(pass_, inner) if kept == options else make_pass(name, kept, inner or None),)

    return edit


def _with_inner(pass_: Pass[Any], inner: Sequence[Pass[Any]]) -> Pass[Any]:
    """Return a pass with other passes inside it."""
    before = _inner(pass_)
    if len(inner) == len(before) and all(map(_is_same, inner, before)):
        return pass_
    if not pass_.children():
        return Sequential(inner)  # a registered pipeline, whose text would not show the change
    name, options = _options(pass_)
    return make_pass(name, options, inner or None)


def _is_same(one: Pass[Any], other: Pass[Any]) -> bool:
    return one is other
