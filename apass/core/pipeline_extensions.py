"""Extensions of pipelines: passes that plug-ins add to a registered pipeline.

A program or a file for `--load` calls `extend_pipeline`. A package declares its extensions as an entry point of the
group `apass.pipeline_extensions`. The registry of passes asks for them here. `PipelineExtension` itself, which parses
and inserts the passes, is in `apass.pipelines`, above the registry.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from apass.errors import PluginWarning
from apass.loading.entry_points import Offer, plugins

__all__ = ["Extension", "Origin", "add_extension", "all_extensions", "is_extended", "remove_extension"]

GROUP: Final = "apass.pipeline_extensions"


class Extension(ABC):
    """The interface of `PipelineExtension`, its only subclass."""

    __slots__ = ()

    pipeline: str
    pass_text: str
    before: str | None
    after: str | None

    @staticmethod
    @abstractmethod
    def extend(name: str, pipeline: Any) -> Any:
        """Return the pipeline registered under `name` with all its extensions."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An extension, and what registered it."""

    extension: Extension
    """The extension."""
    source: str
    """The package with its version, or the file of the module; for messages."""
    is_of_package: bool
    """Whether an installed package declares it."""

    def __str__(self) -> str:
        return f"the extension of {self.extension.pipeline!r} by {self.source} ({self.extension})"


_REGISTERED: Final[list[Origin]] = []
"""The extensions of the program, in order of registration."""


def add_extension(origin: Origin) -> None:
    """Register an extension of the program, unless it is registered already."""
    if all(other.extension != origin.extension for other in _REGISTERED):
        _REGISTERED.append(origin)


def remove_extension(extension: Extension) -> None:
    """Undo `add_extension`."""
    _REGISTERED[:] = [origin for origin in _REGISTERED if origin.extension != extension]


def is_extended(pipeline: str) -> bool:
    """Return whether the program registered an extension of a pipeline."""
    return any(origin.extension.pipeline == pipeline for origin in _REGISTERED)


def all_extensions() -> list[Origin]:
    """Return the extensions of all pipelines, in the order in which they apply.

    Extensions by packages come first, sorted by the name of the entry point, then the program's. An entry point that
    cannot be loaded is a PluginWarning: its pipelines are unknown, and an error would affect all pipelines.

    Raises:
        PluginError: if two packages use the same name.

    """
    if not _REGISTERED and not plugins(GROUP):
        return []
    origins: dict[Extension, Origin] = {}
    # By name, because the order of installed packages differs between machines.
    for _, offer in sorted(plugins(GROUP).items()):
        for extension in _declared(offer):
            origins.setdefault(extension, Origin(extension, offer.package, is_of_package=True))
    for origin in _REGISTERED:
        origins.setdefault(origin.extension, origin)
    return list(origins.values())


@cache
def _declared(offer: Offer) -> Sequence[Extension]:
    """Return the extensions of an entry point; if it cannot be loaded, warn once."""
    package = offer.package
    try:
        value: object = offer.point.load()
        items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
        for item in items:
            if not isinstance(item, Extension):
                raise TypeError(f"it names {item!r}, expected an apass.plugins.PipelineExtension or a list of these")
    except (Exception, SystemExit) as error:  # the module of a third party raised it
        warnings.warn(
            f"no extensions of pipelines are loaded from the entry point {offer.value!r} of {package}: "
            f"{type(error).__name__}: {error}; fix or uninstall {package}",
            PluginWarning,
            stacklevel=2,
        )
        return []
    return cast("Sequence[Extension]", items)
