"""`--timing` with `--executor`: how long each model took as a whole, where its passes run out of sight."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from apass.cli.inputs import Job
from apass.cli.instruments.base import Run, Watch
from apass.instruments.timing.tables import PassTiming

__all__ = ["ELSEWHERE", "ModuleTiming"]

ELSEWHERE: Final = "the passes run elsewhere (--executor), so only whole models are timed"
"""What is said of the times."""


class ModuleTiming(Watch):
    """Times the pipeline on each model; at the end, `give` gets the times and what shows text below the table."""

    def __init__(self, run: Run, give: Callable[[Sequence[PassTiming], Callable[[str], None]], None]) -> None:
        self._passes = run.plan.passes
        self._give = give
        self._begun: dict[str, float] = {}
        self._timings: list[PassTiming] = []

    def phase(self, job: Job, phase: str) -> None:
        """Begin or end a time."""
        if phase == "optimizing":
            self._begun[job.name] = perf_counter()
        elif job.name in self._begun:
            wall = perf_counter() - self._begun.pop(job.name)
            self._timings.append(
                PassTiming(
                    name=self._passes[job.source.suffix].info.name,
                    module=job.name,
                    calls=1,
                    failed=int(phase == "done"),  # what goes on is verified or written first
                    unfinished=0,
                    wall=wall,
                    busy=0.0,
                    children=(),
                )
            )

    def finish(self, show: Callable[[str], None]) -> None:
        """Give the times."""
        self._give(self._timings, show)
