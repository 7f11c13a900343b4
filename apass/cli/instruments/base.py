"""What a way to watch a run of `apass opt` is: the options that ask for it, and what it does during the run."""

from collections.abc import Callable, Iterable
from dataclasses import Field, dataclass
from typing import Any, ClassVar, Final, Protocol

from apass.cli.inputs import Job
from apass.cli.optimize import JobResult
from apass.cli.planning import Plan
from apass.cli.settings import ContextOptions

__all__ = ["PANEL", "Run", "Watch", "WatchOptions"]

PANEL: Final = "Watching"
"""Where `--help` lists the options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of the command, before it begins: what a way to watch it may want to know."""

    plan: Plan
    """Which models, how each is treated, and where to."""
    context: ContextOptions
    """What the command line says of the context."""
    backend: str
    """The event loop."""
    executor: str | None = None
    """Where the passes run; None for the event loop."""


class Watch:
    """One way to watch a run; a subclass overrides what it needs, and each method here does nothing.

    `begin` and `finish` are called once each, outside of the event loop; `finish` also when the run was interrupted.
    """

    takes_terminal = False
    """Whether it shows the run on the terminal itself, so that there is no other bar."""

    def instruments(self) -> Iterable[object]:
        """Return the instruments that the context gets."""
        return ()

    def begin(self) -> None:
        """Called before the first model is read."""

    def phase(self, job: Job, phase: str) -> None:
        """Called when something else is done to a model: "loading", "optimizing", "verifying", "writing", "done"."""

    def result(self, result: JobResult) -> None:
        """Called with what came of a model."""

    def finish(self, show: Callable[[str], None]) -> None:
        """Write what there is to write; `show` prints text below the table."""


class WatchOptions(Protocol):
    """The options of one way to watch. A Protocol, so that each is a dataclass of its own.

    Every field is an option of the command line: annotated with `typer.Option`, and with a default.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def watch(self, run: Run) -> Watch | None:
        """Return what watches `run`; None where the options do not ask for it."""
        ...
