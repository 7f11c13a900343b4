"""The passes that extensions add to a pipeline when it is created."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Final

from apass.core.pass_factories import find_factory
from apass.core.pipeline_extensions import Origin, all_extensions
from apass.errors import (
    ApassError,
    MissingExtraError,
    PassDefinitionError,
    PassOrderError,
    PipelineSyntaxError,
    did_you_mean,
)
from apass.passes.base import Pass
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline

__all__ = ["extended"]

_EXTENDING: ContextVar[tuple[str, ...]] = ContextVar("apass_extending", default=())
"""The names of the pipelines whose extensions are being parsed."""

_CHECKED: Final[set[str]] = set()
"""Names of extended pipelines that exist."""


def extended(name: str, pipeline: Pass[Any]) -> Pass[Any]:
    """Return the pipeline registered under `name` with the passes of its extensions.

    Parameters:
        name: the registered name.
        pipeline: what its factory returned.

    Raises:
        PassDefinitionError: if the pipeline is not a plain Sequential, or if an extension does not fit: it names a
            missing pass, its `before` and `after` exclude each other, or its text is invalid.
        PassOrderError: if `runs_after` or `runs_before` of a pass forbids the new order.
        UnknownPassError: if an extension of the program is for a pipeline that does not exist.
        PluginError: if two packages use the same name for their extensions.

    """
    origins = all_extensions()
    for origin in origins:
        _check_pipeline(origin, name)
    origins = [origin for origin in origins if origin.extension.pipeline == name]
    if not origins:
        return pipeline
    # The text of an extended pipeline cannot express a class with behaviour of its own.
    if type(pipeline) is not Sequential:
        kind = type(pipeline).__name__
        raise PassDefinitionError(
            f"{origins[0]} cannot be applied: {name!r} is of class {kind}, expected a plain Sequential; register a "
            f"Sequential that contains it, and extend that one"
        )
    if name in _EXTENDING.get():
        raise PassDefinitionError(
            f"an extension of {name!r} contains {name!r} itself; write {name}{{extensions=false}} for the pipeline "
            f"without extensions"
        )
    token = _EXTENDING.set((*_EXTENDING.get(), name))
    try:
        return _with_added(pipeline, origins)
    finally:
        _EXTENDING.reset(token)


def _check_pipeline(origin: Origin, name: str) -> None:
    """Raise UnknownPassError if the pipeline of an extension does not exist.

    An extension of a package is checked if its pipeline begins as `name` does. The look-up may import a library, which
    is slow, and a package that is only installed must not cause that.
    """
    target = origin.extension.pipeline
    is_near = target.partition(".")[0] == name.partition(".")[0]
    if target in _CHECKED or (origin.is_of_package and not is_near):
        return
    try:
        find_factory(target)
    except MissingExtraError:
        return
    except ApassError as error:
        raise type(error)(f"{origin} cannot be applied: {error}") from error
    _CHECKED.add(target)


def _with_added(pipeline: Any, origins: Sequence[Origin]) -> Sequential[Any]:
    items: list[tuple[Pass[Any], Origin | None]] = [(pass_, None) for pass_ in pipeline.passes]
    for origin in origins:
        index = _index_in(items, origin)
        items[index:index] = [(pass_, origin) for pass_ in _passes_of(origin)]
    info = pipeline.info
    try:
        result = Sequential([pass_ for pass_, _ in items], info.opt_level, info.name, info.required)
    except PassOrderError as error:
        sources = ", ".join(dict.fromkeys(origin.source for origin in origins))
        raise PassOrderError(f"{error}; the pipeline has passes added by {sources}") from error
    result.added_by = {index: origin.source for index, (_, origin) in enumerate(items) if origin is not None}
    return result


def _index_in(items: Sequence[tuple[Pass[Any], Origin | None]], origin: Origin) -> int:
    """Return where the passes of an extension are inserted."""
    before, after = origin.extension.before, origin.extension.after
    end = len(items) if before is None else _indices_of(before, items, origin)[0]
    if after is None:
        return end
    start = _indices_of(after, items, origin)[-1] + 1
    if start > end:
        raise PassDefinitionError(
            f"{origin} cannot be applied: pass {before!r} runs before pass {after!r}; leave one of them out"
        )
    # After what earlier extensions added here.
    while start < end and items[start][1] is not None:
        start += 1
    return start


def _indices_of(name: str, items: Sequence[tuple[Pass[Any], Origin | None]], origin: Origin) -> list[int]:
    indices = [index for index, (pass_, _) in enumerate(items) if name in pass_.all_names]
    if not indices:
        names = dict.fromkeys(pass_.all_names[-1] for pass_, _ in items)
        near = did_you_mean(name, names, listing="it contains ") or "; it contains no passes"
        raise PassDefinitionError(f"{origin} cannot be applied: the pipeline has no pass {name!r}{near}")
    return indices


def _passes_of(origin: Origin) -> Sequence[Pass[Any]]:
    """Return the passes that an extension adds."""
    try:
        parsed = parse_pipeline(origin.extension.pass_text)
    except MissingExtraError as error:
        error.add_note(f"in {origin}")
        raise
    except ApassError as error:
        reason = error.message if isinstance(error, PipelineSyntaxError) else error
        kind = PassOrderError if isinstance(error, PassOrderError) else PassDefinitionError
        raise kind(f"{origin} cannot be applied: {reason}") from error
    # The text may be that of one Sequential with options, which is an element of the pipeline.
    return parsed.passes if parsed.spec == ("Sequential", {}) else (parsed,)
