"""`Trial`: one candidate with its values, and the front of the best ones."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

__all__ = ["Source", "Trial", "elements_of", "front_of"]

Source = Literal["measured", "equal"]
"""Whether the objective was called, or an equal module already had the values."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One candidate: a pipeline on a module, with its values or a reason."""

    number: int
    """The number in the study, from 0; the baselines of the modules come first."""
    module: str
    """The name of the module."""
    pipeline: str
    """The text of the pipeline; empty for the module as it is."""
    values: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """The values of the objective by name; empty if there are none."""
    reason: str = ""
    """Why the candidate failed, or which constraint it breaks; empty if it can be chosen."""
    seconds: float = 0.0
    """Seconds from the start of the build to the value, with the time in queues."""
    source: Source = "measured"
    """Where the values come from."""
    details: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """What the objective noted beside the values, such as the noise of a measurement."""
    reproducer: str = ""
    """The folder that reproduces the failure; empty if there is none."""

    @property
    def is_valid(self) -> bool:
        """Whether the candidate has values and can be chosen."""
        return not self.reason

    def as_json(self) -> dict[str, Any]:
        """Return the trial as values of JSON."""
        return {
            "number": self.number,
            "module": self.module,
            "pipeline": self.pipeline,
            "values": dict(self.values),
            "reason": self.reason or None,
            "seconds": round(self.seconds, 6),
            "source": self.source,
            "details": dict(self.details),
            "reproducer": self.reproducer or None,
        }


def front_of(trials: Iterable[Trial], names: Iterable[str]) -> tuple[Trial, ...]:
    """Return the Pareto front: the valid trials that no other one dominates.

    They are sorted by their first value.

    One dominates another one if no value is greater. Of equal trials, the first is in the front.
    """
    names, front = tuple(names), list[Trial]()

    def dominates(one: Trial, other: Trial) -> bool:
        return all(one.values[name] <= other.values[name] for name in names)

    for trial in trials:
        if trial.is_valid and not any(dominates(known, trial) for known in front):
            front = [known for known in front if not dominates(trial, known)]
            front.append(trial)
    return tuple(sorted(front, key=lambda trial: [trial.values[name] for name in names]))


def elements_of(pipeline: str) -> Iterator[str]:
    """Iterate over the texts of the passes of a pipeline."""
    depth = start = 0
    for index, character in enumerate(pipeline):
        depth += (character in "({[") - (character in ")}]")
        if character == "," and not depth:
            yield pipeline[start:index]
            start = index + 1
    if pipeline:
        yield pipeline[start:]
