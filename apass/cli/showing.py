"""Showing one run: the reporter and the ways to watch, told of everything, and closed whatever happens."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from apass.cli.display import Reporter
from apass.cli.inputs import Job
from apass.cli.instruments import Watch
from apass.cli.optimize import JobResult
from apass.core.diagnostics import DiagnosticContext

__all__ = ["Showing"]


class Showing:
    """Everything that shows a run."""

    def __init__(self, reporter: Reporter, watches: Sequence[Watch]) -> None:
        self._reporter = reporter
        self._watches = watches

    @property
    def is_complete(self) -> bool:
        """Whether every file has a result."""
        return self._reporter.is_complete

    def phase(self, job: Job, phase: str) -> None:
        """Show what is being done to a file."""
        self._reporter.phase(job, phase)
        for watch in self._watches:
            watch.phase(job, phase)

    def result(self, result: JobResult) -> None:
        """Show what came of a file."""
        self._reporter.result(result)
        for watch in self._watches:
            watch.result(result)

    @contextmanager
    def closing(self, diagnostics: DiagnosticContext) -> Generator[None]:
        """Show the run that is made within, and at its end, however it ends, the table and what each watch found."""
        with ExitStack() as closing:
            for watch in reversed(self._watches):
                closing.callback(watch.finish, self._reporter.show)
            closing.callback(self._reporter.summarize, diagnostics)
            for watch in self._watches:
                watch.begin()
            with self._reporter:
                yield
