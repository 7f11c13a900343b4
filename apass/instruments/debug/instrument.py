"""`DebugInstrument`: finds mistakes in passes while they run."""

import inspect
import sys
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from threading import Lock, local
from typing import Any, Final, cast
from weakref import WeakKeyDictionary, ref

from apass.concurrency.coroutines import is_awaitable, missing_await
from apass.core.adapter import adapter_for
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.places import Place
from apass.core.run import Run, current_run
from apass.core.run_settings import RunSettings
from apass.errors import DebugError, DebugWarning, PassResultError, VerifyError
from apass.instruments.debug.loop_samples import LoopSamples
from apass.instruments.debug.places import (
    is_created_by,
    place_of_coroutine,
    place_of_pass,
    place_of_write,
    state_of,
)
from apass.instruments.debug.running_tasks import tasks_with
from apass.instruments.honest_change import HonestChangeInstrument
from apass.instruments.verify import VerifyInstrument
from apass.util.checks import is_seconds

__all__ = ["DebugInstrument"]

_ORIGIN_FRAMES: Final = 40
"""Frames that a coroutine remembers of its creation; a task group of anyio adds about ten."""

SAMPLES: Final = LoopSamples()
"""The samples of all contexts in debug mode."""


class _Mark:
    """One run of a pass or a body, which its contextvars and its tasks refer to."""

    __slots__ = ("__weakref__", "forgotten", "outer", "pass_", "state")

    def __init__(self, pass_: object, outer: "_Mark | None", state: dict[str, tuple[object, object]]) -> None:
        self.pass_ = pass_
        self.outer = outer
        self.state = state
        """The attributes of the pass before the run."""
        self.forgotten: list[tuple[str, Place | None]] = []
        """The name and the place of each coroutine that was never awaited."""


_MARK: ContextVar[_Mark | None] = ContextVar("apass_debug_mark", default=None)


@pass_instrument
class DebugInstrument:
    """Finds mistakes in passes.

    With the environment variable `APASS_DEBUG=1`, every context has one. It brings a `VerifyInstrument` and a
    `HonestChangeInstrument`, unless the context has some.

    These raise a DebugError:

    - A pass or a body does not await a coroutine that it created, or a module contains one.
    - A pass or a body ends while a task that it started is running.
    - A pass changes one of its attributes, which all its runs share.

    These emit a DebugWarning:

    - A pass or a body holds the event loop for longer than `slow` seconds without an `await`. The line is the one that
      was current most often.
    - A context with instruments or config was created and never entered.

    Each message ends with the place in the user's code.

    Parameters:
        slow: how many seconds a pass may hold the event loop.
        strict: whether to compute the analyses again that passes claim to preserve, and to compare the module before
            and after a pass in place that reports no change.

    Raises:
        ValueError: if `slow` is not a positive number.
        TypeError: if `strict` is not a bool.

    >>> import anyio, apass
    >>> @apass.function_pass(opt_level=0)
    ... async def Forget(func, mod, ctx):
    ...     anyio.sleep(1)
    ...     return func
    >>> try:
    ...     apass.run(Forget, {"f": 8}, context=apass.PassContext(instruments=[DebugInstrument()]))
    ... except apass.errors.DebugError as error:
    ...     print(str(error).partition(", at")[0])
    pass 'Forget', function 'f' did not await the coroutine 'sleep'

    """

    unused_since: Place | None = None
    """Where the context was created, until it is used; None if the check does not apply."""

    def __init__(self, slow: float = 0.1, *, strict: bool = False) -> None:
        if not is_seconds(slow):
            raise ValueError(f"slow must be a positive number of seconds, got {slow!r}")
        if not isinstance(strict, bool):
            raise TypeError(f"strict must be True or False, got {strict!r}")
        self.slow: Final = slow
        """The `slow` argument."""
        self.run_settings: Final = RunSettings(strict=strict)
        """What the instrument changes of the runner."""
        self._marks: WeakKeyDictionary[Run, _Mark] = WeakKeyDictionary()
        self._shown: set[tuple[str, str]] = set()
        self._lock = Lock()
        # Spans with the seconds in them that are reported or that hooks took.
        self._spans: deque[tuple[float, float, float]] = deque(maxlen=1000)
        self._companions: Final = (VerifyInstrument(), HonestChangeInstrument())

    def companions(self, given: Sequence[object], must_be_entered: bool) -> Sequence[object]:
        """Return the instruments that a new context has as well, before the `given` ones.

        Verification comes first: an instrument whose `run_after_pass` was called does not receive a later failure.
        """
        if must_be_entered:
            self.unused_since = _creator()
        return [one for one in self._companions if not any(isinstance(other, type(one)) for other in given)]

    def mark_used(self) -> None:
        """Record that another context is derived from the one with this instrument."""
        self.unused_since = None

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(_DebugTwin, self.slow, strict=self.run_settings.strict)

    def merge_records(self, records: Sequence[tuple[str, str, Place]]) -> None:
        """Emit the warnings of a twin."""
        for record in records:
            self._warn_once(*record)

    def _warn_once(self, pass_name: str, message: str, place: Place) -> None:
        """Emit a warning about a pass, once for each line."""
        with self._lock:
            is_new = (pass_name, str(place)) not in self._shown
            self._shown.add((pass_name, str(place)))
        if is_new:
            self._warn(pass_name, message, place)

    def _warn(self, pass_name: str, message: str, place: Place) -> None:
        warnings.warn_explicit(DebugWarning(message), None, place.file, place.line)

    def enter_pass_ctx(self) -> None:
        """Record that the context is used."""
        self.unused_since = None

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the attributes of the pass, and observe its coroutines and tasks."""
        self.unused_since = None
        run = current_run()
        if run is not None:
            _HOOK.acquire()
            SAMPLES.begin()
            self._begin(run, state_of(run.pass_))

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Check the pass.

        Raises:
            DebugError: if it made a mistake.

        """
        run = current_run()
        if run is None or run not in self._marks:
            return
        SAMPLES.end()
        _HOOK.release()
        state = self._end(run)
        for name, func in adapter_for(mod).functions(mod):
            if is_awaitable(func):
                mistake = missing_await(func, f"{_owner(run)}, for function {name!r},", "a function")
                raise DebugError(f"{mistake}{_at(place_of_coroutine(func))}")
        after = state_of(run.pass_)
        for name in {**state, **after}:
            if not _is_same(state.get(name), after.get(name)):
                where = _at(place_of_write(run.pass_, name) or place_of_pass(run.pass_))
                raise DebugError(
                    f"{_owner(run)} changed its attribute {name!r}, which all runs of the pass share; use a local "
                    f"variable or a ContextVar{where}"
                )

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Add the place of the pass to an error that has no frame of it."""
        run = current_run()
        if run is None or run not in self._marks:
            return
        SAMPLES.end()
        _HOOK.release()
        self._end(run, error)
        if isinstance(error, VerifyError | PassResultError) and (place := place_of_pass(run.pass_)) is not None:
            error.add_note(f"pass {run.info.name!r} is defined at {place}")

    def run_before_function(self, func: Any, run: Run) -> None:
        """Observe the coroutines and tasks of the body."""
        self._begin(run, {})

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Check the body.

        Raises:
            DebugError: if it made a mistake.

        """
        self._end(run)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Stop to observe the body."""
        self._end(run, error)

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Warn if a pass held the event loop for too long."""
        self._check_step(run, start, end)

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Warn if a body held the event loop for too long."""
        self._check_step(run, start, end)

    def on_hooks(self, run: Run | None, start: float, end: float, busy: float) -> None:
        """Record the time of hooks, which does not count for the pass around them."""
        with self._lock:
            self._spans.append((start, end, busy))

    def _check_step(self, run: Run, start: float, end: float) -> None:
        if end - start < self.slow:
            return
        with self._lock:
            # A step of a pass contains the steps of the passes that it calls, which have been reported.
            inner = [span for span in self._spans if start <= span[0] and span[1] <= end]
            seconds = end - start - sum(busy for _, _, busy in inner)
            if seconds < self.slow:
                return
            self._spans.append((start, end, end - start))
        place = SAMPLES.place(start, end, place_of_pass(run.pass_), inner)
        if place is not None:
            self._warn_once(run.info.name, f"{_owner(run)} held the loop for {seconds:.2f} s{_at(place)}", place)

    def _begin(self, run: Run, state: dict[str, tuple[object, object]]) -> None:
        """Mark the contextvars of a run, so that its tasks and coroutines are known."""
        mark = self._marks[run] = _Mark(run.pass_, _MARK.get(), state)
        _MARK.set(mark)

    def _end(self, run: Run, error: BaseException | None = None) -> dict[str, tuple[object, object]]:
        """Check a run, and return the attributes of the pass before it.

        If there is an `error`, mistakes are added to it as notes.

        Raises:
            DebugError: if the run made a mistake, and there is no `error`.

        """
        mark = self._marks.pop(run, None)
        if mark is None:
            return {}
        # The awaitable that a plain body returned ends in the contextvars of another task.
        if _MARK.get() is mark:
            _MARK.set(mark.outer)
        state = mark.state
        mistakes = [f"{_owner(run)} did not await the coroutine {name!r}{_at(place)}" for name, place in mark.forgotten]
        reference = ref(mark)
        del mark
        # Usually nothing else holds the mark: then no such task is running.
        if (mark := reference()) is not None:
            mistakes += [
                f"{_owner(run)} ended while its task {name!r} was running; use a task group{_at(place)}"
                for name, place in tasks_with(_MARK, mark)
            ]
        if mistakes and error is None:
            raise DebugError(mistakes[0])
        for mistake in mistakes:
            cast("BaseException", error).add_note(mistake)
        return state

    def __del__(self) -> None:
        # At the end of the process, a context may be left that a program never came to use.
        if self.unused_since is not None and not sys.is_finalizing():
            place = self.unused_since
            self._warn("", f"a PassContext was created and never entered; use it with `async with`{_at(place)}", place)


class _DebugTwin(DebugInstrument):
    """The instrument in a worker, which records its warnings."""

    def __init__(self, slow: float, *, strict: bool) -> None:
        super().__init__(slow, strict=strict)
        self._records: list[tuple[str, str, Place]] = []

    def _warn(self, pass_name: str, message: str, place: Place) -> None:
        self._records.append((pass_name, message, place))

    def worker_records(self) -> Sequence[tuple[str, str, Place]]:
        """Return the warnings, for `merge_records`."""
        return self._records


def _creator() -> Place | None:
    """Return where the user creates a context; None if apass does."""
    frame = inspect.currentframe()
    creators = (__name__, "apass.core.context", "apass.core.hooks")
    while frame is not None and frame.f_globals.get("__name__") in creators:
        frame = frame.f_back
    if frame is None or frame.f_globals.get("__name__", "").startswith("apass."):
        return None
    return Place(frame.f_code.co_filename, frame.f_lineno)


def _owner(run: Run) -> str:
    return f"pass {run.info.name!r}" + ("" if run.function is None else f", function {run.function!r}")


def _at(place: Place | None) -> str:
    return "" if place is None else f", at {place}"


def _is_same(before: tuple[object, object] | None, after: tuple[object, object] | None) -> bool:
    """Return whether an attribute is the same object with the same contents."""
    if before is None or after is None or before[0] is not after[0]:
        return False
    old, new = before[1], after[1]
    if isinstance(old, dict) and isinstance(new, dict):
        old, new = _flat(cast("dict[object, object]", old)), _flat(cast("dict[object, object]", new))
    if isinstance(old, list) and isinstance(new, list):
        old, new = cast("list[object]", old), cast("list[object]", new)
        return len(old) == len(new) and all(map(lambda one, other: one is other, old, new))
    return old == new


def _flat(contents: dict[object, object]) -> list[object]:
    return [*contents.keys(), *contents.values()]


class _Origins(local):
    """The coroutines' memory of their creation, which Python sets for each thread."""

    users = 0
    depth = 0

    def acquire(self) -> None:
        """Let coroutines remember their creation until `release`; it is slow."""
        depth = sys.get_coroutine_origin_tracking_depth()
        if not self.users:
            self.depth = depth
        self.users += 1
        # Set for each run, because event loops in their debug mode change it.
        if depth < _ORIGIN_FRAMES:
            sys.set_coroutine_origin_tracking_depth(_ORIGIN_FRAMES)

    def release(self) -> None:
        """Restore the setting after the outermost `acquire` in this thread."""
        self.users -= 1
        if not self.users:
            sys.set_coroutine_origin_tracking_depth(self.depth)


class _UnawaitedHook:
    """Attributes the coroutines that are never awaited to the runs that created them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._origins = _Origins()
        self._users = 0
        self._original: Any = None

    def acquire(self) -> None:
        """Replace Python's warning until `release`; calls may be nested."""
        self._origins.acquire()
        with self._lock:
            self._users += 1
            if self._users == 1:
                # The interpreter calls this function of the module. The filters of warnings would hide repetitions.
                self._original = getattr(warnings, _UNAWAITED, None)
                setattr(warnings, _UNAWAITED, self._on_unawaited)

    def release(self) -> None:
        """Restore Python's warning after the outermost `acquire`."""
        self._origins.release()
        with self._lock:
            self._users -= 1
            if not self._users:
                setattr(warnings, _UNAWAITED, self._original)

    def _on_unawaited(self, coroutine: Any) -> None:
        mark = _MARK.get()
        # The garbage collector may delete a coroutine during another run.
        while mark is not None and not is_created_by(coroutine, mark.pass_):
            mark = mark.outer
        if mark is not None:
            mark.forgotten.append((coroutine.__qualname__, place_of_coroutine(coroutine)))
        elif self._original is not None:
            self._original(coroutine)


_UNAWAITED: Final = "_warn_unawaited_coroutine"
_HOOK: Final = _UnawaitedHook()
