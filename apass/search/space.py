"""`Space`: the pipelines that a search chooses from."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final, cast

from apass.errors import SearchError
from apass.passes.base import Pass
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline
from apass.search.matching import point_of
from apass.search.space_text import parse_space
from apass.search.template import (
    Chooser,
    Domain,
    Point,
    Site,
    draw,
    examples_of,
    named_values,
    render,
    sites_of,
    size_of,
)
from apass.util.text import shorten

__all__ = ["Space", "pipeline_of"]


class Space:
    """The pipelines that a search chooses from.

    A space is the text of a pipeline with holes:

    - `Repeat{times=?1..4}(A)`: a number of a range; with `?1..1024:log`, drawn by its logarithm.
    - `Simplify{level=?}`: any value of an option that is a bool, a Literal or an Enum.
    - `Simplify{level=?(low|high)}`: one of these values.
    - `?(A|B,C|)`: A, or B and C, or nothing. Alternatives may have holes, which count only where they are chosen.
    - `?{1..12}(A|B|C)`: one to twelve of these, in any order; `?{1..12,once}(A|B|C)` without repeats.

    Parameters:
        text: the text.
        name: the name under which a plug-in offers the space.

    Raises:
        PipelineSyntaxError: if the text cannot be parsed, or an alternative is no valid pipeline.
        SearchError: if the space has no choices.
        UnknownPassError: if no pass is registered under a name.

    >>> space = Space("Repeat{times=?1..3}(?(Sequential|First(Sequential)))")
    >>> space.size
    6
    >>> space.text_of(space.draw(lambda name, domain: 1))
    'Repeat{times=1}(First(Sequential))'

    """

    def __init__(self, text: str, name: str = "") -> None:
        self.name: Final = name
        """The name under which a plug-in offers the space; else empty."""
        self.text: Final = text
        """The text of the space."""
        self.items: Final = parse_space(text)
        """The parsed text."""
        if self.size <= 1:
            raise SearchError(
                f"the space {text!r} has no choices; write a hole, as in '?(A|B)', '?{{1..12}}(A|B)' or 'times=?1..4'"
            )
        for example in examples_of(self.items):
            _parsed(example)

    def __repr__(self) -> str:
        return f"Space({self.text!r})"

    @cached_property
    def size(self) -> float:
        """The number of points; infinite if an option is a float."""
        return size_of(self.items)

    def draw(self, choose: Chooser) -> Point:
        """Return a point whose values `choose` returns."""
        return draw(self.items, choose)

    def elements_of(self, point: Point) -> tuple[str, ...]:
        """Return the texts of the passes of a point."""
        return tuple(render(self.items, point))

    def text_of(self, point: Point) -> str:
        """Return the pipeline of a point."""
        return ",".join(self.elements_of(point))

    def passes_of(self, point: Point) -> Sequential[Any]:
        """Return the passes of a point.

        Raises:
            PipelineSyntaxError: if an option does not accept a value.
            PassOrderError: if the passes forbid their order.

        """
        return pipeline_of(self.elements_of(point))

    def sites(self, point: Point) -> Iterator[Site]:
        """Iterate over the holes that a point fills."""
        return sites_of(self.items, point, lambda new: new)

    def named(self, point: Point) -> Mapping[str, tuple[Domain, float]]:
        """Return the domain and the value of each choice of a point, by name."""
        return {name: (domain, value) for name, domain, value in named_values(self.items, point)}

    def point_of(self, text: str) -> Point | None:
        """Return a point with this pipeline; None if there is none.

        >>> space = Space("?{1..3}(Sequential|First(Sequential))")
        >>> space.text_of(space.point_of("First(Sequential),Sequential"))
        'First(Sequential),Sequential'

        """
        return point_of(self.items, parse_space(text))

    def from_json(self, value: object) -> Point:
        """Return the point that was written as JSON.

        Raises:
            SearchError: if it is no point of this space.

        """
        point: Point = _as_tuples(value)
        try:
            named = self.named(point)
            is_valid = all(_has(domain, value) for domain, value in named.values())
            is_valid = is_valid and self.draw(lambda name, _: named[name][1]) == point
        except (TypeError, ValueError, LookupError, AttributeError):
            is_valid = False
        if not is_valid:
            raise SearchError(f"the point {shorten(repr(value))} does not belong to the space {shorten(self.text)}")
        return point


def pipeline_of(elements: Sequence[str]) -> Sequential[Any]:
    """Return the pipeline of the texts of passes."""
    return Sequential([pass_ for element in elements for pass_ in _parsed(element)])


@lru_cache(maxsize=4096)
def _parsed(element: str) -> tuple[Pass[Any], ...]:
    # Passes are values. Parsing them anew would take most of the time of a trial.
    return tuple(parse_pipeline(element).passes)


def _has(domain: Domain, value: object) -> bool:
    """Return whether a value, which may come from a file, is one of a domain."""
    if isinstance(domain, tuple):
        return type(value) is int and 0 <= value < len(domain)
    return type(value) is (int if domain.is_int else float) and domain.low <= value <= domain.high


def _as_tuples(value: object) -> Any:
    return tuple(map(_as_tuples, cast("list[object]", value))) if isinstance(value, list) else value
