"""Extensions of pipelines: passes that plug-ins add to a registered pipeline.

A program or a file for `--load` calls `extend_pipeline`. A package declares its extensions as an entry point of the
group `apass.pipeline_extensions`. `apass.pipelines.extensions` inserts the passes.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from inspect import currentframe
from pathlib import Path
from types import FrameType
from typing import Final, cast

from apass.core.plugins import Offer, plugins
from apass.errors import PassRegistrationError, PluginWarning
from apass.util.interactive import definition_in_session

__all__ = ["Origin", "PipelineExtension", "all_extensions", "extend_pipeline", "is_extended"]

GROUP: Final = "apass.pipeline_extensions"


@dataclass(frozen=True, slots=True)
class PipelineExtension:
    """Passes that are added to a registered pipeline, such as `onnx.Default`.

    An installed package declares one, or a list of them, as an entry point. A program calls `extend_pipeline`.
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


@dataclass(frozen=True, slots=True)
class Origin:
    """An extension, and what registered it."""

    extension: PipelineExtension
    """The extension."""
    source: str
    """The package with its version, or the file of the module; for messages."""
    is_of_package: bool
    """Whether an installed package declares it."""

    def __str__(self) -> str:
        return f"the extension of {self.extension.pipeline!r} by {self.source} ({self.extension})"


_REGISTERED: Final[list[Origin]] = []
"""The extensions of the program, in order of registration."""

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
    if all(origin.extension != extension for origin in _REGISTERED):
        _REGISTERED.append(Origin(extension, _file_of(_caller()), is_of_package=False))
    return extension


def is_extended(pipeline: str) -> bool:
    """Return whether the program registered an extension of a pipeline."""
    return any(origin.extension.pipeline == pipeline for origin in _REGISTERED)


def all_extensions() -> list[Origin]:
    """Return the extensions of all pipelines, in the order in which they apply.

    Those of packages come first, sorted by the name of the entry point, then those of the program. An entry point that
    cannot be loaded is a PluginWarning: its pipelines are unknown, and an error would affect all pipelines.

    Raises:
        PluginError: if two packages use the same name.

    """
    if not _REGISTERED and not plugins(GROUP):
        return []
    origins: dict[PipelineExtension, Origin] = {}
    # By name, because the order of installed packages differs between machines.
    for _, offer in sorted(plugins(GROUP).items()):
        for extension in _declared(offer):
            origins.setdefault(extension, Origin(extension, offer.package, is_of_package=True))
    for origin in _REGISTERED:
        origins.setdefault(origin.extension, origin)
    return list(origins.values())


@cache
def _declared(offer: Offer) -> Sequence[PipelineExtension]:
    """Return the extensions of an entry point; if it cannot be loaded, warn once."""
    package = offer.package
    try:
        value: object = offer.point.load()
        items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
        for item in items:
            if not isinstance(item, PipelineExtension):
                raise TypeError(f"it names {item!r}, expected an apass.PipelineExtension or a list of these")
    except (Exception, SystemExit) as error:  # the module of a third party raised it
        warnings.warn(
            f"no extensions of pipelines are loaded from the entry point {offer.value!r} of {package}: "
            f"{type(error).__name__}: {error}; fix or uninstall {package}",
            PluginWarning,
            stacklevel=2,
        )
        return []
    return cast("Sequence[PipelineExtension]", items)


def _forget_earlier(extension: PipelineExtension) -> None:
    """Remove what an earlier execution of a cell registered."""
    for earlier in list(_OF_SESSION):
        if (earlier.pipeline, earlier.pass_text) == (extension.pipeline, extension.pass_text) and earlier != extension:
            _OF_SESSION.remove(earlier)
            _REGISTERED[:] = [origin for origin in _REGISTERED if origin.extension != earlier]


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
