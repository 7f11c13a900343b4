"""`BusyPasses`: ends passes that never suspend, by a timer signal.

A cancellation reaches a pass when it awaits something. A signal reaches it at any line of Python.
"""

import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Final

from apass.core.context import current_scope
from apass.core.places import place_of_frame
from apass.core.run import Run, RunCursor, current_run, whereabouts_of
from apass.core.tracebacks import is_event_loop_frame, is_runner_frame
from apass.errors import PassCancelledError

__all__ = ["BusyPasses", "running_code"]

INTERVAL: Final = 0.2
"""Seconds until the next look at a pass that must end, or whose code cannot be interrupted."""
PATIENCE: Final = 1.0
"""Seconds that a pass has after an interrupt to suspend by itself."""

_frames_of_threads: Callable[[], dict[int, FrameType]] = vars(sys)["_current_frames"]

_BODIES: Final = frozenset(("adapters", "relay"))
"""The folders of apass whose code belongs to passes."""


class BusyPasses:
    """Raises an error in a pass whose time is over, or whose run is interrupted.

    The error is raised in the line that runs. So it names pass, function and line, and the model fails as with any
    other error. A pass in C is reached when it returns to Python.
    """

    def __init__(self) -> None:
        self._limit: float | None = None
        self._is_interrupted = False

    @contextmanager
    def watched(self, limit: float | None = None) -> Generator[None]:
        """Watch the passes that run in the main thread within the block.

        This has no effect in another thread, without `setitimer`, and if the program uses its signal.

        Parameters:
            limit: the shortest time limit of a pass or module; if it is None, only `interrupt` starts the timer.

        """
        is_main = current_thread() is main_thread()
        if not (is_main and hasattr(signal, "setitimer") and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL):
            yield
            return
        self._limit = limit
        signal.signal(signal.SIGALRM, self._look)
        if limit is not None:
            _start_timer(limit)
        try:
            yield
        finally:
            if self._is_handler():
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def interrupt(self) -> None:
        """End the passes that run and do not suspend soon; called by a signal handler."""
        if self._is_handler():
            self._is_interrupted = True
            _start_timer(PATIENCE)

    def _is_handler(self) -> bool:
        # Each access to `self._look` makes another object.
        return hasattr(signal, "SIGALRM") and getattr(signal.getsignal(signal.SIGALRM), "__self__", None) is self

    def _look(self, _number: int, frame: FrameType | None) -> None:
        """Raise if the interrupted code belongs to a pass that must end."""
        # The handler runs in the contextvars of the interrupted task.
        run = current_run()
        is_body = run is not None and frame is not None and _is_body(frame)
        deadline = current_scope().deadline if is_body else None
        left = None if deadline is None else deadline.left()
        _start_timer(self._next_look(left, is_body=is_body))
        if run is None or not is_body:
            return
        subject = f"pass {run.info.name!r}" if run.function is None else f"the body of pass {run.info.name!r}"
        if self._is_interrupted:
            raise PassCancelledError(f"{subject} was interrupted by a signal, because it did not suspend")
        if deadline is not None and not left:
            raise deadline.exceeded(subject)

    def _next_look(self, left: float | None, *, is_body: bool) -> float:
        """Return the seconds until the next look.

        They are few only if there is a reason: a signal may end a system call of a library.
        """
        if self._is_interrupted or self._limit is None or (is_body and not left):
            return INTERVAL
        return max(INTERVAL, left or self._limit / 4)


def _start_timer(seconds: float) -> None:
    """Send the signal after so many seconds, and again until it is handled."""
    # After Ctrl-Z and `fg`, another thread may receive the signal. CPython then leaves a busy main thread unaware of
    # it (3.11, `_PyEval_SignalReceived`). Each handled signal starts the timer anew, so that usually there is one.
    signal.setitimer(signal.ITIMER_REAL, seconds, INTERVAL)


def running_code() -> Iterator[str]:
    """Iterate over the lines of users that threads run, with their passes."""
    for frame in _frames_of_threads().values():
        place = place_of_frame(frame)
        if place is not None:
            run = _run_of(frame)
            yield f"at {place}" if run is None else f"{whereabouts_of(run)}, at {place}"


def _run_of(frame: FrameType | None) -> Run | None:
    """Return the run that a thread executes, from the variables of the runner."""
    # The contextvars of another thread cannot be read.
    while frame is not None:
        if is_runner_frame(frame):
            for value in frame.f_locals.values():
                run = value.run() if isinstance(value, RunCursor) else value
                if isinstance(run, Run):
                    return run
        frame = frame.f_back
    return None


def _is_body(frame: FrameType) -> bool:
    """Return whether a frame belongs to the body of a pass."""
    body: Any = None
    current: FrameType | None = frame
    while current is not None and not is_runner_frame(current):
        # The event loop must not be interrupted, not even if a body has called it.
        if is_event_loop_frame(current):
            return False
        body, current = current, current.f_back
    if body is None or current is None:
        return False
    package, *rest = body.f_globals.get("__name__", "").split(".")
    return rest[0] in _BODIES if package == "apass" and rest else package not in sys.stdlib_module_names
