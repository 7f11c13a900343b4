"""Formats of model files, by suffix.

The library of a format is imported when the first file of that format is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast, runtime_checkable

from anyio import CapacityLimiter

from apass.cli.inputs import InputError
from apass.core.plugins import plugins
from apass.util.files import Prepared

__all__ = ["Comparison", "Measures", "MeasuringFormat", "ModelFormat", "format_of", "module_of", "suffixes"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing the outputs of a model before and after."""

    changed: bool
    """Whether the meaning of the model has changed."""
    text: str
    """A short description of the result."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What `apass opt --compare` shows of a model besides its nodes."""

    bytes: int
    """Size of its file with the weights."""
    latency: float | None
    """Seconds of one run; None if it was not measured."""
    reason: str = ""
    """The reason why it was not measured."""


class ModelFormat(Protocol):
    """The operations of the command line on one kind of model file.

    A Python module with these functions implements this protocol.
    """

    @property
    def DEFAULT_PIPELINE(self) -> str:  # noqa: N802  implemented by a constant of a module
        """The pipeline that runs if none is given."""
        ...

    def load(self, path: Path) -> Any:
        """Read a model.

        Raises:
            ApassError: if the file is not a model. The message contains the path.

        """
        ...

    def companions(self, path: Path) -> list[Path]:
        """Return the additional files of a model file, such as external weights."""
        ...

    def save(self, mod: Any, path: Path, prepared: Prepared | None = None) -> None:
        """Write a model to temporary files beside `path`, and rename them.

        `prepared` is called before the files are renamed.
        """
        ...

    def size(self, mod: Any) -> int:
        """Return the number of nodes in all functions of the model."""
        ...

    async def compare_outputs(self, before: Any, after: Any, workers: CapacityLimiter) -> Comparison:
        """Run both models on the same random inputs, and compare their outputs.

        `workers` limits the concurrent evaluations.
        """
        ...


@runtime_checkable
class MeasuringFormat(Protocol):
    """An optional operation of a model format."""

    async def measure(self, mods: Sequence[Any]) -> Sequence[Measures]:
        """Return the measures of models that have the inputs of the first."""
        ...


_FORMATS: Final = "apass.model_formats"
_CONVERSIONS: Final = "apass.model_conversions"


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of model files."""
    return tuple(sorted(plugins(_FORMATS)))


def module_of(path: Path, result: str | None = None) -> str:
    """Return the module of the format of a file, by its suffix and that of its result.

    The module implements `ModelFormat`; it is not imported. If `result` is None, both suffixes are the same.

    Raises:
        InputError: if no format has the suffix, or no conversion to `result` exists.

    """
    formats, conversions = plugins(_FORMATS), plugins(_CONVERSIONS)
    if path.suffix not in formats:
        raise InputError(f"model file {path} has the suffix {path.suffix!r}; expected one of {', '.join(suffixes())}")
    if result in (None, path.suffix):
        return formats[path.suffix].value
    name = f"{path.suffix}-to-{result}"
    if name not in conversions:
        known = ", ".join(sorted(conversions)).replace("-to-", " to ")
        raise InputError(f"{path} cannot be converted to a {result} file; supported conversions: {known}")
    return conversions[name].value


def format_of(path: Path, result: str | None = None) -> ModelFormat:
    """Return the format of a file, as `module_of` does.

    Raises:
        InputError: if no format has the suffix, or no conversion to `result` exists.
        MissingExtraError: if the library of the format is not installed.

    """
    return cast("ModelFormat", import_module(module_of(path, result)))
