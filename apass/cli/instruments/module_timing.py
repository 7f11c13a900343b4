"""`--timing` with `--executor`: the times of models, without their passes."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from apass.cli.inputs import Job
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.instruments.timing.tables import PassTiming

__all__ = ["ONLY_MODELS", "ModuleTiming"]

ONLY_MODELS: Final = "passes in an executor (--executor) are not observed, so only models are timed"
"""Printed below the times."""


class ModuleTiming(RunObserver):
    """Times the pipeline on each model; calls `write` at the end."""

    def __init__(self, run: RunPlan, write: Callable[[Sequence[PassTiming], Callable[[str], None]], None]) -> None:
        self._passes = run.plan.passes
        self._write = write
        self._starts: dict[str, float] = {}
        self._timings: list[PassTiming] = []

    def phase(self, job: Job, phase: str) -> None:
        """Start or stop the timer of a model."""
        if phase == "optimizing":
            self._starts[job.name] = perf_counter()
        elif job.name in self._starts:
            wall = perf_counter() - self._starts.pop(job.name)
            self._timings.append(
                PassTiming(
                    name=self._passes[job.source.suffix].info.name,
                    module=job.name,
                    calls=1,
                    # After a success, the next phase is "verifying" or "writing".
                    failed=int(phase == "done"),
                    unfinished=0,
                    wall=wall,
                    busy=0.0,
                    children=(),
                )
            )

    def finish(self, show: Callable[[str], None]) -> None:
        """Write the times."""
        self._write(self._timings, show)
