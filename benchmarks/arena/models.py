"""The list of models, read from `models.toml`."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

__all__ = ["GROUPS", "MODELS", "ArenaError", "Model", "Wheel", "load_models", "select_models"]

MODELS: Final = Path(__file__).parent / "models.toml"
"""The list of models."""

GROUPS: Final = ("ten", "others", "all")
"""The values of `--group`."""


class ArenaError(Exception):
    """An error that the command prints as one line."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of the package index."""

    package: str
    """The name of the package."""
    version: str
    """The pinned version."""
    platform: str = ""
    """The platform of the wheel; empty if it is for any platform."""
    group: str = "others"
    """`ten` or `others`."""
    tuned: bool = False
    """Whether the passes of apass were developed with models of this wheel."""

    @property
    def requirement(self) -> str:
        """The requirement for pip, such as `magika==1.0.3`."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class Model:
    """A model in a wheel."""

    name: str
    """The short name, which is unique."""
    wheel: Wheel
    """The wheel that has it."""
    member: str
    """The path in the wheel."""
    sha256: str
    """The hash of the file."""


def load_models(path: Path = MODELS) -> list[Model]:
    """Return the models of a list.

    Raises:
        ArenaError: if two models have the same name or the same contents.

    """
    models: list[Model] = []
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["wheel"]
    for entry in entries:
        files: list[dict[str, str]] = entry.pop("models")
        wheel = Wheel(**entry)
        models += [Model(file["name"], wheel, file["member"], file["sha256"]) for file in files]
    for values in ([model.name for model in models], [model.sha256 for model in models]):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ArenaError(f"{path} has {twice[0]} twice; models need different names and contents")
    return models


def select_models(models: Iterable[Model], group: str, patterns: Sequence[str]) -> list[Model]:
    """Return the models of a group whose names match one of the patterns.

    Without patterns, all are selected.

    Raises:
        ArenaError: if no model is selected.

    """
    in_group = [model for model in models if group in ("all", model.wheel.group)]
    chosen = [model for model in in_group if any(fnmatchcase(model.name, pattern) for pattern in patterns or ("*",))]
    if not chosen:
        names = f"; it has {', '.join(model.name for model in in_group[:5])}, ..." if in_group else ""
        raise ArenaError(f"no model of the group {group!r} matches {' or '.join(patterns) or 'any name'}{names}")
    return chosen
