"""`PipelineExtension`: passes that are added to a registered pipeline."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import currentframe
from pathlib import Path
from types import FrameType
from typing import Any, Final

from apass.core.pass_factories import find_factory
from apass.core.pipeline_extensions import Extension, Origin, add_extension, all_extensions, remove_extension
from apass.errors import (
    ApassError,
    MissingExtraError,
    PassDefinitionError,
    PassOrderError,
    PassRegistrationError,
    PipelineSyntaxError,
    did_you_mean,
)
from apass.passes.base import Pass
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline
from apass.util.interactive import definition_in_session

__all__ = ["PipelineExtension", "extend_pipeline"]

_EXTENDING: ContextVar[tuple[str, ...]] = ContextVar("apass_extending", default=())
"""The names of the pipelines whose extensions are being parsed."""

_CHECKED: Final[set[str]] = set()
"""Names of extended pipelines that exist."""


@dataclass(frozen=True, slots=True)
class PipelineExtension(Extension):
    """Passes that are added to a registered pipeline, such as `onnx.Default`.

    They are added when the pipeline is created. An installed package declares one, or a list of them, as an entry
    point. A program calls `extend_pipeline`.
    """

    pipeline: str
    """The name under which the pipeline is registered."""
    pass_text: str
    """The added passes, as the text of a pipeline; it is parsed when the pipeline is created."""
    before: str | None = None
    """The name of a pass of the pipeline; the added passes run before the first one of this name."""
    after: str | None = None
    """The name of a pass of the pipeline; the added passes run after the last one of this name."""

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            PassRegistrationError: if one is not a text, or is empty.

        """
        for field, value in (("pipeline", self.pipeline), ("pass_text", self.pass_text)):
            if not isinstance(value, str) or not value.strip():
                raise PassRegistrationError(f"{field} of an extension must be a non-empty text, got {value!r}")
        for field, name in (("before", self.before), ("after", self.after)):
            if name is not None and (not isinstance(name, str) or not name):
                raise PassRegistrationError(f"{field} of an extension must be the name of a pass or None, got {name!r}")

    def __str__(self) -> str:
        """Return the passes and where they are added, for messages."""
        places = [f" {word} {name!r}" for word, name in (("after", self.after), ("before", self.before)) if name]
        return f"{self.pass_text!r}{' and'.join(places) or ' at the end'}"

    @staticmethod
    def extend(name: str, pipeline: Pass[Any]) -> Pass[Any]:
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


_OF_SESSION: Final[set[PipelineExtension]] = set()
"""The extensions that a notebook or another interactive session registered, and may register again."""


def extend_pipeline(
    pipeline: str, pass_text: str, *, before: str | None = None, after: str | None = None
) -> PipelineExtension:
    """Add passes to a registered pipeline, such as the default pipeline of an IR.

    An example is `extend_pipeline("onnx.Default", "my.Tune", after="onnx.Simplify")`. From now on, the pipeline
    contains the passes wherever its name is looked up: in a text, by `get_pass`, and as a default pipeline. Pipelines
    that exist already stay as they are.

    Without `before` and `after`, the passes are added at the end. With both, they run after the one and before the
    other. Passes that several extensions add at one place run in the order of registration, those of packages first.
    Registering the same extension again has no effect. In a notebook or at a prompt, the same passes of the same
    pipeline replace the earlier extension of the session.

    Parameters:
        pipeline: the registered name of a pipeline. Its factory returns a `Sequential`, and not one of a subclass.
        pass_text: the passes, as the text of a pipeline; it is parsed when the pipeline is created.
        before: the name of a pass of the pipeline; if it occurs several times, the first one.
        after: the name of a pass of the pipeline; if it occurs several times, the last one.

    Raises:
        PassRegistrationError: if an argument is empty or not a text. If a name is unknown, the look-up of the pipeline
            raises an error.

    """
    extension = PipelineExtension(pipeline, pass_text, before, after)
    if definition_in_session(extension) is not None:
        _forget_earlier(extension)
        _OF_SESSION.add(extension)
    add_extension(Origin(extension, _file_of(_caller()), is_of_package=False))
    return extension


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


def _forget_earlier(extension: PipelineExtension) -> None:
    """Remove what an earlier execution of a cell registered."""
    for earlier in list(_OF_SESSION):
        if (earlier.pipeline, earlier.pass_text) == (extension.pipeline, extension.pass_text) and earlier != extension:
            _OF_SESSION.remove(earlier)
            remove_extension(earlier)


def _caller() -> FrameType | None:
    """Return the frame that called the caller of this function."""
    frame = currentframe()
    for _ in range(2):
        frame = None if frame is None else frame.f_back
    return frame


def _file_of(frame: FrameType | None) -> str:
    """Return the file of a frame, relative to the working directory if it is inside."""
    file = None if frame is None else frame.f_globals.get("__file__")
    if not isinstance(file, str):
        return "this session"
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
