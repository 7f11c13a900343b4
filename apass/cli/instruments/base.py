"""Interfaces of the observers of a run of `apass opt`, and of their options."""

from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from apass.cli.inputs import Job
from apass.cli.optimize import JobResult
from apass.cli.planning import Plan
from apass.cli.settings import ContextOptions

__all__ = ["DataOptions", "ObserverOptions", "RunObserver", "RunPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The settings of a run, from which observers are created."""

    plan: Plan
    """The models, their pipelines and their results."""
    context: ContextOptions
    """The options of the context."""
    backend: str
    """The event loop."""


class RunObserver:
    """An observer of a run.

    The methods here do nothing; a subclass overrides those that it needs. `begin` and `finish` are called once each,
    outside the event loop. `finish` is also called after an interrupt.
    """

    takes_terminal = False
    """Whether the observer draws on the terminal, so that no progress bar is shown."""

    def instruments(self) -> Iterable[object]:
        """Return the instruments to add to the context."""
        return ()

    def begin(self) -> None:
        """Start; called before the first model is read."""

    def phase(self, job: Job, phase: str) -> None:
        """Record that a model enters a phase.

        The phases are "looking up", "loading", "optimizing", "verifying", "writing" and "done".
        """

    def result(self, result: JobResult) -> None:
        """Record the result of a model."""

    async def follow_up(self) -> None:
        """Do further work in the event loop, after the context of the run."""

    def finish(self, show: Callable[[str], None]) -> None:
        """Write the output; `show` prints text below the table of results."""


@runtime_checkable
class DataOptions(Protocol):
    """Options that may let an observer print data for other programs.

    An optional addition to `ObserverOptions`.
    """

    @property
    def prints_data(self) -> bool:
        """Whether `finish` prints data, alone on standard output."""
        ...


class ObserverOptions(Protocol):
    """The options of an observer.

    A Protocol, so that each implementation is a plain dataclass. Every field is an option of the command line: it is
    annotated with `typer.Option`, and has a default.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer of `run`, or None if the options do not enable it."""
        ...
