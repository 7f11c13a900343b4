"""`MeasurementLane`: measures times, one measurement at a time on a machine."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, final

import anyio
from anyio.lowlevel import RunVar

from apass.concurrency.processes.affinity import last_core, reserved
from apass.concurrency.run_locals import RunLocal
from apass.concurrency.work_limits import uncounted
from apass.errors import MeasurementError
from apass.util.checks import check_type
from apass.util.file_locks import close_in_forks, lock_unless_taken, unlock
from apass.util.paired_times import AlternatingRounds, PairedTimes

__all__ = ["Measurement", "MeasurementLane", "ProgramRun"]

R = TypeVar("R")

LOCK_VARIABLE: Final = "APASS_MEASURING_LOCK"
"""The environment variable with the path of the lock file."""

POLL_SECONDS: Final = 0.02
"""Seconds between two attempts to lock the file. An attempt takes 10 us."""


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of a program that ended with status 0."""

    seconds: float
    """The time from its start to its exit."""
    stdout: bytes
    """Its standard output."""
    stderr: bytes
    """Its standard error."""


@final
class Measurement:
    """The right to measure, which `MeasurementLane.measuring` grants for a block.

    Its runs take place one after the other, even if several tasks ask for them. A run that is cancelled, for example by
    a time limit, has no value.
    """

    __slots__ = ("_is_over", "_runs", "core", "was_cancelled")

    def __init__(self, core: int | None) -> None:
        self.core: Final = core
        """The core that runs are pinned to; None if they are not pinned."""
        self.was_cancelled = False
        """Whether a run was cancelled, so that a result that does without it must not be cached."""
        self._runs: Final = anyio.Lock()
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the block has been left."""
        return self._is_over

    async def call(self, function: Callable[..., R], /, *args: Any) -> R:
        """Return `function(*args)`, computed in a worker that is pinned to the core.

        The function measures the times itself, and returns them. `AlternatingRounds` is the loop for several variants.
        The affinity of the worker is restored afterwards. A cancellation kills the worker.

        Parameters:
            function: a plain function of a module.
            *args: its arguments, which are pickled like its result.

        Raises:
            BrokenWorkerProcess: if the worker ended.
            MeasurementError: if the block has been left.
            Exception: any error that the function raised.

        """
        # The worker processes take long to import, and most programs measure nothing.
        from apass.concurrency.processes.pinned import call_pinned

        async with self._run():
            return await call_pinned(self.core, function, *args)

    async def run(
        self,
        command: Sequence[str | Path],
        question: bytes = b"",
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ProgramRun:
        """Run a program that is pinned to the core; return its output and its time.

        A cancellation kills the program and the processes that it started.

        Parameters:
            command: the program and its arguments.
            question: the standard input.
            cwd: the working directory.
            env: the environment, in place of this process's own.

        Raises:
            HelperError: if the exit status is not 0. The message includes the last lines of standard error.
            TypeError: if `command` is a string, or empty.
            OSError: if the program cannot be started.
            MeasurementError: if the block has been left.

        """
        # The worker processes take long to import, and most programs measure nothing.
        from apass.concurrency.processes.pinned import run_pinned

        async with self._run():
            return ProgramRun(*await run_pinned(self.core, command, question, cwd, env))

    async def compare(
        self,
        baseline: Callable[[], Awaitable[float]],
        candidate: Callable[[], Awaitable[float]],
        *,
        width: float = 0.02,
        seconds: float = 10.0,
        most: int = 200,
    ) -> PairedTimes:
        """Return the times of a baseline and of a candidate, whose runs alternate.

        In each round both run once, and the order is swapped from round to round.

        Parameters:
            baseline: runs the baseline once, and returns its seconds.
            candidate: runs the candidate once, and returns its seconds.
            width: the rounds end when the confidence interval of the ratio is as narrow as this.
            seconds: no round starts after so many seconds.
            most: the largest number of rounds.

        Raises:
            ValueError: if a parameter or a time is out of range.
            Exception: any error of a run.

        """
        rounds = AlternatingRounds(width=width, seconds=seconds, most=most)
        variants = (baseline, candidate)
        for index in rounds:
            rounds.record(await variants[index]())
        return rounds.paired()

    def end(self) -> None:
        """Forbid further runs; for the lane."""
        self._is_over = True

    @asynccontextmanager
    async def _run(self) -> AsyncGenerator[None]:
        try:
            async with self._runs:
                if self._is_over:
                    raise MeasurementError("the measurement is over; make its runs within `async with`")
                yield
        except anyio.get_cancelled_exc_class():
            self.was_cancelled = True
            raise


_CURRENT: Final[RunLocal[Measurement | None]] = RunLocal("measurement", None)
_QUEUES: Final[RunVar[dict[Path, anyio.Lock]]] = RunVar("apass measurement queues")


def _lock_file() -> Path:
    """Return the lock file of this user."""
    chosen = os.environ.get(LOCK_VARIABLE)
    if chosen:
        return Path(chosen)
    # It takes 4 ms to import, and few programs measure.
    import tempfile

    # Windows has a temporary folder for each user.
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    return Path(tempfile.gettempdir(), f"apass{user}", "measuring.lock")


@final
@dataclass(frozen=True, slots=True)
class MeasurementLane:
    """Measures times, one measurement at a time on a machine.

    Other work may go on, such as the build of the next candidates. Tasks of one event loop get the lane in the order in
    which they ask for it. Processes exclude each other by a lock file; a process that ends in any way frees the lane.
    All lanes with the same lock file are the same lane.

    In a pass, write `async with ctx.measuring()`, which uses `MeasurementLane()`.

    Parameters:
        lock: the lock file, a Path. The default is the file that the environment variable `APASS_MEASURING_LOCK` names,
            or else one in a folder of the user in the temporary folder.
        core: the core that measurements are pinned to. The default is the last one that this process may use, or None
            if there is only one, or if the platform cannot pin.

    >>> async def main():
    ...     async with MeasurementLane(core=None).measuring() as measurement:
    ...         return await measurement.call(divmod, 7, 2)
    >>> anyio.run(main)
    (3, 1)

    """

    lock: Path = field(default_factory=_lock_file)
    """The lock file."""
    core: int | None = field(default_factory=last_core)
    """The core that measurements are pinned to; None if they are not pinned."""

    def __post_init__(self) -> None:
        check_type("lock file", self.lock, Path)
        check_type("core", self.core, int | None)

    @asynccontextmanager
    async def measuring(self) -> AsyncGenerator[Measurement]:
        """Hold the lane within the block; wait until it is free.

        The wait does not count against the `timeout` of a pass. The deadline of a context applies.

        Raises:
            MeasurementError: if this task measures already, or the lock file cannot be used.

        """
        outer = _CURRENT.get()
        # A task that the measuring task awaits would wait forever.
        if outer is not None and not outer.is_over:
            raise MeasurementError("this task measures already; use its measurement, or leave the block first")
        with uncounted():
            await (queue := _queue(self.lock)).acquire()
            try:
                held = await _lock_machine(self.lock)
            except BaseException:
                queue.release()
                raise
        measurement = Measurement(self.core)
        try:
            with _CURRENT.set_to(measurement):
                yield measurement
        finally:
            measurement.end()
            unlock(held)
            queue.release()

    @contextmanager
    def reserved(self) -> Generator[None]:
        """Keep the other work of this process off the core of the lane within the block.

        This applies to the threads of this process, and to processes that start in the block. Enter it before executors
        start their workers. Blocks may be nested and overlap; the last one that ends restores the affinity. Without a
        core, this has no effect.
        """
        with reserved(self.core):
            yield


def _queue(path: Path) -> anyio.Lock:
    """Return the FIFO queue for a lock file in this event loop."""
    try:
        queues = _QUEUES.get()
    except LookupError:
        queues = dict[Path, anyio.Lock]()
        _QUEUES.set(queues)
    return queues.setdefault(path, anyio.Lock())


async def _lock_machine(path: Path) -> int:
    """Lock a file, and return its descriptor; wait for other processes."""
    # The next process to measure holds a second file. Without it, a process that measures again and again would
    # lock the file again before the others look.
    turn = await _lock(path.with_name(f"{path.name}.next"))
    try:
        return await _lock(path)
    finally:
        unlock(turn)


async def _lock(path: Path) -> int:
    # A thread that waits in `flock` could not be cancelled.
    while True:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = lock_unless_taken(path)
        except OSError as error:
            advice = f"let {LOCK_VARIABLE} name a file that this process can write"
            raise MeasurementError(f"the measurement lane cannot lock {path}: {error.strerror}; {advice}") from error
        if descriptor is not None:
            close_in_forks(descriptor)
            return descriptor
        await anyio.sleep(POLL_SECONDS)
