"""Which files are models, and what the command line does with each kind; its library is imported when one comes."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from anyio import CapacityLimiter

from apass.cli.inputs import InputError
from apass.core.plugins import plugins
from apass.util.files import Prepared

__all__ = ["Comparison", "ModelFormat", "format_of", "suffixes"]


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


_FORMATS: Final = "apass.model_formats"
_CONVERSIONS: Final = "apass.model_conversions"


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of model files."""
    return tuple(sorted(plugins(_FORMATS)))


def format_of(path: Path, result: str | None = None) -> ModelFormat:
    """Return the format of a file, by its suffix and by that of its `result`, the same one if it is None.

    Raises:
        InputError: if no format has that suffix, or none converts it to the suffix `result`.
        MissingExtraError: if the library for it is not installed.

    """
    formats, conversions = plugins(_FORMATS), plugins(_CONVERSIONS)
    if path.suffix not in formats:
        raise InputError(f"{path} is no model that apass knows by its ending; known are {', '.join(suffixes())}")
    if result in (None, path.suffix):
        return cast("ModelFormat", import_module(formats[path.suffix].value))
    name = f"{path.suffix}-to-{result}"
    if name not in conversions:
        known = ", ".join(sorted(conversions)).replace("-to-", " into ")
        raise InputError(f"{path} cannot be made into a {result} file; what can be are {known}")
    return cast("ModelFormat", import_module(conversions[name].value))
