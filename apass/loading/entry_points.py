"""Plug-ins: what installed packages offer to apass through entry points.

Relay and ONNX are plug-ins too, declared in apass's own `pyproject.toml`. These groups exist:

- `apass.irs`: an `IRPlugin`, by the full name of a module class or by its top-level package, and by each suffix of its
  files, with the name of the IR (`llvm:.ll`). For a class or package, an adapter object will do.
- `apass.passes`: the factory of one pass, by the name of the pass.
- `apass.executors`: a function that returns an executor of apass, by its name. Others are passed as objects.
- `apass.instruments`: an instrument of apass that an environment variable chooses, such as `debug` for APASS_DEBUG.
- `apass.pass_modules`: a module that registers passes when it is imported, by a pattern of their names (`onnx.*`). A
  pass that converts one IR to another is declared by its whole name (`mlir.FromLLVM`), so that commands find it.
- `apass.config_modules`: a module that registers config options, by a pattern of their keys (`relay.*`).
- `apass.languages`: the `Language` of a compiler's pipelines, by its name, and with each suffix of files: `llvm:.ll`.
- `apass.spaces`: a function that returns the text of a space, by the name of the space.
- `apass.coresets`: a function that returns pipelines for the strategy `coreset`, by the name of their space.
- `apass.objectives`: a function that returns an objective, given what follows the colon of its name.
- `apass.strategies`: a function that returns a strategy, given a `StrategySetup`.
- `apass.pipeline_extensions`: a `PipelineExtension` or a list of these, by a name, such as the name of the package.

No plug-in is imported before something asks for it. If two packages declare the same name in a group, an error names
both as soon as the name is used.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Final

from apass.errors import ApassError, MissingExtraError, PluginError, PluginWarning

__all__ = ["Offer", "all_plugins", "import_all", "matching_modules", "plugins"]


class Offer:
    """What packages declare under one name of a group.

    Parameters:
        points: the entry points of the name, one of each package.

    """

    def __init__(self, points: Iterable[EntryPoint]) -> None:
        self._points = tuple(points)

    @property
    def point(self) -> EntryPoint:
        """The entry point.

        Raises:
            PluginError: if several packages declare the name.

        """
        point, *others = self._points
        if others:
            packages = " and ".join(sorted(map(_package, self._points)))
            raise PluginError(
                f"the packages {packages} both declare {point.name!r} in the entry point group {point.group!r}; "
                f"uninstall all but one of them"
            )
        return point

    @property
    def value(self) -> str:
        """The module, or the object as `module:name`."""
        return self.point.value

    @property
    def package(self) -> str:
        """The package and its version, for messages."""
        return _package(self.point)

    @property
    def module(self) -> str:
        """The module."""
        return self.point.module

    def load(self) -> Any:
        """Import the object.

        Raises:
            PluginError: if that fails, or several packages declare the name.
            MissingExtraError: if the module needs a library that is not installed.

        """
        point = self.point
        try:
            return point.load()
        except ApassError:
            raise
        except (Exception, SystemExit) as error:  # the module of a third party may raise anything
            raise PluginError(
                f"{point.value!r} cannot be loaded from the entry point group {point.group!r}: "
                f"{type(error).__name__}: {error}; fix or uninstall {self.package}"
            ) from error

    def require(self) -> None:
        """Check that the libraries of the plug-in are installed.

        They are the requirements of an extra of the package that has the name of a folder of the plug-in, such as
        `onnx` for `apass.adapters.onnx.plugin`. The plug-in is imported if there is no such extra, or a requirement
        is not installed under its name.

        Raises:
            MissingExtraError: if one of them is not installed.
            PluginError: if the plug-in cannot be imported, or several packages declare the name.

        """
        libraries = _libraries(self.point)
        if not libraries or not all(map(_is_installed, libraries)):
            self.load()


def _libraries(point: EntryPoint) -> Collection[str]:
    """Return the packages that the extra of a plug-in requires."""
    folders = point.module.split(".")[:-1]
    matches = map(_REQUIREMENT.match, (point.dist.requires if point.dist is not None else None) or ())
    return [match[1] for match in matches if match is not None and match[2] in folders]


_REQUIREMENT: Final = re.compile(r"""([\w.-]+)[^;]*;.*\bextra *== *['"]([\w.-]+)['"]""")
"""A package and an extra in the metadata of a package, such as `onnx>=1.17; extra == 'onnx'`."""


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _package(point: EntryPoint) -> str:
    return "(unknown)" if point.dist is None else f"{point.dist.name} {point.dist.version}"


@cache
def all_plugins() -> Mapping[str, Mapping[str, Offer]]:
    """Return the offers of every group of apass, by group and by name."""
    # Each call of `entry_points` reads a file of every installed package, even if it asks for one group.
    found = entry_points()
    groups: dict[str, dict[str, list[EntryPoint]]] = {}
    for group in found.groups:
        if group.startswith("apass."):
            names = groups.setdefault(group, {})
            for point in found.select(group=group):
                names.setdefault(point.name, []).append(point)
    return {group: {name: Offer(points) for name, points in names.items()} for group, names in groups.items()}


def plugins(group: str) -> Mapping[str, Offer]:
    """Return the offers of a group, by name."""
    return all_plugins().get(group, {})


def matching_modules(group: str, name: str) -> Iterator[str]:
    """Import the modules of a group whose pattern matches a name.

    The most specific pattern comes first. Yields the pattern after each import, so that the caller stops as soon as
    the name is known.

    Raises:
        MissingExtraError: if a module needs a library that is not installed.
        PluginError: if a module cannot be imported.

    """
    for pattern in sorted(plugins(group), key=len, reverse=True):
        if fnmatchcase(name, pattern):
            plugins(group)[pattern].load()
            yield pattern


def import_all(group: str) -> list[MissingExtraError]:
    """Import every module of a group; return the errors about missing libraries.

    A module that cannot be imported costs a PluginWarning.
    """
    missing: list[MissingExtraError] = []
    for offer in plugins(group).values():
        try:
            offer.load()
        except MissingExtraError as error:
            missing.append(error)
        except PluginError as error:
            warnings.warn(str(error), PluginWarning, stacklevel=2)
    return missing
