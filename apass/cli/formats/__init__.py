"""Which files are models, and what the command line does with each kind; its library is imported when one comes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from anyio import CapacityLimiter

from apass.cli.inputs import InputError
from apass.util.files import Prepared

__all__ = ["SUFFIXES", "Comparison", "ModelFormat", "format_of"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came of running a model before and after."""

    changed: bool
    """Whether it computes something else."""
    text: str
    """What was found, in a few words."""


class ModelFormat(Protocol):
    """One kind of model file. A Protocol, so that a module with these functions is one."""

    @property
    def DEFAULT_PIPELINE(self) -> str:  # noqa: N802  a constant of a module
        """What runs where no pipeline is given."""
        ...

    def load(self, path: Path) -> Any:
        """Read a model; an ApassError that names the file if it is none."""
        ...

    def companions(self, path: Path) -> list[Path]:
        """Return the files that belong to the model in a file, beside that one."""
        ...

    def save(self, mod: Any, path: Path, prepared: Prepared | None = None) -> None:
        """Write a model beside `path`, tell `prepared`, and rename it."""
        ...

    def size(self, mod: Any) -> int:
        """Return how many nodes the model has, in all its functions."""
        ...

    async def compare_outputs(self, before: Any, after: Any, workers: CapacityLimiter) -> Comparison:
        """Run both on the same random inputs, in one of `workers`, and say whether they agree."""
        ...


_MODULES: Final[Mapping[str, str]] = {".onnx": "apass.cli.formats.onnx", ".relay": "apass.cli.formats.relay"}

_CONVERSIONS: Final[Mapping[tuple[str, str], str]] = {(".onnx", ".relay"): "apass.cli.formats.onnx_to_relay"}
"""What handles a file of one ending whose result is to have another."""

SUFFIXES: Final = tuple(_MODULES)
"""The endings of model files."""


def format_of(path: Path, result: str | None = None) -> ModelFormat:
    """Return what handles the file, by its ending and that of its `result`, the same one if it is None.

    Raises:
        InputError: if no kind of model has that ending, or none becomes one of the ending `result`.
        MissingExtraError: if the library for it is not installed.

    """
    if path.suffix not in _MODULES:
        raise InputError(f"{path} is no model that apass knows by its ending; known are {', '.join(_MODULES)}")
    if result in (None, path.suffix):
        return _load(_MODULES[path.suffix])
    if (path.suffix, result) not in _CONVERSIONS:
        raise InputError(f"{path} cannot be made into a {result} file; what can be are {_conversions()}")
    return _load(_CONVERSIONS[path.suffix, result])


def _conversions() -> str:
    return ", ".join(f"{one} into {other}" for one, other in _CONVERSIONS)


@cache
def _load(module: str) -> ModelFormat:
    return cast("ModelFormat", import_module(module))
