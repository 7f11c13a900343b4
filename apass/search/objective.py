"""What an objective gets and returns: `Candidate`, `Attempt` and their values."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final, Generic, cast

from apass.core.adapter import ModT
from apass.errors import SearchError

__all__ = ["Attempt", "Candidate", "Objective", "Values", "checked_values", "name_of"]

VALUE: Final = "value"
"""The name of the value of an objective that returns a number and has no name of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Generic[ModT]):
    """A module that a pipeline of the space has made."""

    name: str
    """The name of the module."""
    module: ModT
    """The module after the pipeline."""
    original: ModT
    """The module before it."""
    baseline: ModT
    """The module after the baseline, with which measurements compare."""
    pipeline: str
    """The text of the pipeline."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The trial that an objective belongs to."""

    number: int
    """The number of the trial."""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is recorded with the trial."""

    def note(self, **details: object) -> None:
        """Record further values of JSON, such as the noise of a measurement."""
        self.details.update(details)


Values = float | Mapping[str, float]
"""One value, or several by name; smaller is better."""

Objective = Callable[[Candidate[Any], Attempt], Values | Awaitable[Values]]
"""Rates a candidate; called as `objective(candidate, attempt)`, plain or async.

An error fails the trial, and the search goes on.
"""


def name_of(objective: Objective) -> str:
    """Return the name of the value of an objective.

    It is its `objective_name`, or the name of the function.
    """
    name = getattr(objective, "objective_name", None) or getattr(objective, "__name__", VALUE)
    return VALUE if name == "<lambda>" else str(name)


def checked_values(returned: object, name: str) -> dict[str, float]:
    """Return the values of an objective by name.

    Parameters:
        returned: what it returned.
        name: the name of a single value.

    Raises:
        SearchError: if it is not a finite number, or a mapping of names to these.

    """
    found = cast("Mapping[object, object]", returned) if isinstance(returned, Mapping) else {name: returned}
    if not found:
        raise SearchError(f"the objective {name!r} returned no values; expected a number, or numbers by name")
    values: dict[str, float] = {}
    for key, value in found.items():
        where = "" if not isinstance(returned, Mapping) else f" for {key!r}"
        if not isinstance(key, str) or isinstance(value, bool) or not isinstance(value, Real):
            message = f"the objective {name!r} returned {value!r} ({type(value).__name__}){where}"
            raise SearchError(f"{message}; expected a number, or numbers by name")
        values[key] = float(value)
        if not math.isfinite(values[key]):
            raise SearchError(f"the objective {name!r} returned {values[key]}{where}; expected a finite number")
    return values
