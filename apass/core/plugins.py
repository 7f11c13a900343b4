"""Plug-ins: what installed packages offer to apass through entry points.

Relay and ONNX are plug-ins too, declared in apass's own `pyproject.toml`. These groups exist:

- `apass.adapters`: an adapter object, by the full name of a module class or by its top-level package.
- `apass.passes`: the factory of one pass, by the name of the pass.
- `apass.pass_modules`: a module that registers passes when it is imported, by a pattern of their names (`onnx.*`).
- `apass.config_modules`: a module that registers config options, by a pattern of their keys (`relay.*`).
- `apass.model_formats`: a module that reads and writes model files, by their suffix (`.onnx`).
- `apass.model_conversions`: the same for a result with another suffix (`.onnx-to-.relay`).

No plug-in is imported before something asks for it.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from apass.errors import MissingExtraError

__all__ = ["all_plugins", "import_all", "matching_modules", "plugins"]


@cache
def all_plugins() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return the entry points of every group of apass, by group and by name."""
    # Each call of `entry_points` reads a file of every installed package, even if it asks for one group.
    found = entry_points()
    groups = [group for group in found.groups if group.startswith("apass.")]
    return {group: {point.name: point for point in found.select(group=group)} for group in groups}


def plugins(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group, by name."""
    return all_plugins().get(group, {})


def matching_modules(group: str, name: str) -> Iterator[str]:
    """Import the modules of a group whose pattern matches a name.

    The most specific pattern comes first. Yields the pattern after each import, so that the caller stops as soon as
    the name is known.

    Raises:
        MissingExtraError: if a module needs a library that is not installed.

    """
    for pattern in sorted(plugins(group), key=len, reverse=True):
        if fnmatchcase(name, pattern):
            import_module(plugins(group)[pattern].value)
            yield pattern


def import_all(group: str) -> list[MissingExtraError]:
    """Import every module of a group; return the errors about missing libraries."""
    missing: list[MissingExtraError] = []
    for point in plugins(group).values():
        try:
            import_module(point.value)
        except MissingExtraError as error:
            missing.append(error)
    return missing
