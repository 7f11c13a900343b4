"""The passes that convert modules of one IR to another, found by their names.

A pass is a conversion if its name contains the names of two IRs: `mlir.FromLLVM` takes a module of `llvm`, and
`mlir.ToLLVM` returns one. The commands find a way from the file of a model to the format of the result here, so a
conversion needs no declaration besides its pass.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from apass.core.ir_plugin import ir_names
from apass.core.pass_factories import known_names
from apass.loading.entry_points import plugins

__all__ = ["Conversion", "Route", "conversions", "require_conversion", "route_between"]

_MODULES: Final = "apass.pass_modules"
_NAME: Final = re.compile(r"(?P<own>\w+)\.(?P<direction>From|To)(?P<other>\w+)")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A pass that returns a module of another IR than it takes.

    >>> Conversion.of("mlir.FromLLVM")
    Conversion(name='mlir.FromLLVM', source='llvm', result='mlir')
    """

    name: str
    """The name of the pass."""
    source: str
    """The name of the IR of the modules that it takes."""
    result: str
    """The name of the IR of the modules that it returns."""

    @classmethod
    def of(cls, name: str) -> "Conversion | None":
        """Return the conversion that a name declares; None if it declares none."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        own, other = match["own"].lower(), match["other"].lower()
        if not {own, other} <= ir_names():
            return None
        return cls(name, other, own) if match["direction"] == "From" else cls(name, own, other)


@dataclass(frozen=True, slots=True)
class Route:
    """The conversions from one IR to another."""

    source: str
    """The name of the IR at the start."""
    passes: tuple[str, ...]
    """The names of the passes, in order."""
    result: str
    """The name of the IR at the end."""


def conversions() -> Iterator[Conversion]:
    """Iterate over all conversions, sorted by name.

    They are registered passes, and entry points. Nothing is imported. A module of passes that several names share, such
    as `toy.*`, must be imported before.
    """
    for name in sorted({*known_names(), *plugins(_MODULES)}):
        conversion = Conversion.of(name)
        if conversion is not None:
            yield conversion


def route_between(sources: Iterable[str], results: Iterable[str]) -> Route | None:
    """Return the shortest route between IRs; None if there is none.

    Parameters:
        sources: the names of IRs of which any may be the start. Of equally short routes, the first of them decides.
        results: the names of IRs of which any may be the end.

    """
    ends = frozenset(results)
    routes = [Route(source, (), source) for source in sources]
    edges = list(conversions())
    reached = set[str]()
    # A breadth-first search: `routes` grows in the loop.
    for route in routes:
        if route.result in ends:
            return route
        if route.result not in reached:
            reached.add(route.result)
            routes += [
                Route(route.source, (*route.passes, edge.name), edge.result)
                for edge in edges
                if edge.source == route.result
            ]
    return None


def require_conversion(name: str) -> None:
    """Check that the libraries of a conversion are installed.

    See `Offer.require` for what is imported.

    Raises:
        MissingExtraError: if a library is not installed.
        PluginError: if its module cannot be imported.

    """
    offer = plugins(_MODULES).get(name)
    if offer is not None:
        offer.require()
