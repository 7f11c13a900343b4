"""`Stepping`: at which pass a module that was resumed pauses next."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from apass.core.run import Run

__all__ = ["RUNNING", "Stepping"]


@dataclass(frozen=True, slots=True)
class Stepping:
    """How far a module runs."""

    kind: Literal["run", "step", "next", "finish"]
    """To a breakpoint, to the next pass, past the pass, or to the end of the pass around it."""
    run: Run | None = None
    """The run of the pass at which the command was given."""
    has_ended: bool = False
    """Whether that pass had ended."""

    def stops_before(self, run: Run) -> bool:
        """Return whether the module pauses before a pass."""
        if self.kind == "next":
            return self.has_ended and self.run is not None and run.parent is self.run.parent
        return self.kind == "step"

    def stops_after(self, run: Run) -> bool:
        """Return whether the module pauses after a pass."""
        if self.kind in ("run", "step"):
            return self.kind == "step"
        # A pass that is cancelled does not pause, and the one around it may go on.
        return any(run is outer for outer in self._surrounding()) or (
            self.kind == "next" and not self.has_ended and run is self.run
        )

    def _surrounding(self) -> Iterator[Run]:
        """Iterate over the runs of the passes around the pass, innermost first."""
        if self.run is not None:
            yield from (outer.body_of or outer for outer in self.run.lineage[1:])


RUNNING: Final = Stepping("run")
"""Runs to a breakpoint."""
