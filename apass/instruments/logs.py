"""`LoggingInstrument`: logs passes as structured records of `logging`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from time import time
from typing import Any, Final, Self

import anyio

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import PositionTracker
from apass.core.run import Run, Whereabouts, current_module_name, current_run
from apass.executors.remote_errors import SerializedError, failure_of
from apass.instruments.support.outcomes import ending_text

__all__ = ["LoggingInstrument"]

_PASSES: Final = logging.getLogger("apass.pass")
_FUNCTIONS: Final = logging.getLogger("apass.function")


@pass_instrument
class LoggingInstrument:
    """Logs passes on the logger `apass.pass`, failed functions on `apass.function`.

    The messages are constant event names. The data is in attributes of the record:

    - `pass_started`, at level DEBUG;
    - `pass_finished`, at INFO, with `seconds` and `changed`;
    - `pass_failed`, at ERROR, with `seconds` and `error`; at WARNING if it was cancelled;
    - `function_failed`, at ERROR, with `function`, `seconds` and `error`; at WARNING if it was cancelled.

    Each record has `pass_name`, `pass_path` (as in `Position.text`), `module_name` (`logging` uses `module` itself) and
    `function`, the function whose body called the pass, or None. Events at a disabled level cost next to nothing. Only
    the record of the innermost failed pass has the error as `exc_info`.
    >>> import apass
    >>> class Keys(logging.Handler):
    ...     def emit(self, record):
    ...         print(record.getMessage(), record.pass_path, record.changed)
    >>> log, keys = logging.getLogger("apass"), Keys()
    >>> log.addHandler(keys); log.setLevel(logging.INFO)
    >>> Double = apass.function_pass(lambda func, mod, ctx: 2 * func, opt_level=0, name="Double")
    >>> context = apass.PassContext(instruments=[LoggingInstrument()])
    >>> _ = apass.run(apass.Sequential([Double]), {"f": 1}, context=context)
    pass_finished 0:sequential/0:Double True
    pass_finished 0:sequential True
    >>> log.removeHandler(keys); log.setLevel(logging.NOTSET)

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    def __init__(self) -> None:
        # A twin keeps its events, because the loggers of a worker are not those of the program.
        self._levels: Mapping[str, int] | None = None
        self._events: list[_Event] = []
        self._positions = PositionTracker()
        self._subjects: dict[Run, tuple[object]] = {}
        self._lock = Lock()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        levels = {logger.name: _enabled_level(logger) for logger in (_PASSES, _FUNCTIONS)}
        return partial(LoggingInstrument._make_twin, levels, self._positions.reserve(current_module_name()))

    def worker_records(self) -> Sequence["_Event"]:
        """Return the events, for `merge_records` of the original."""
        return self._events

    def merge_records(self, records: Sequence["_Event"]) -> None:
        """Log the events of a twin, with the times at which they happened."""
        for event in records:
            logger = logging.getLogger(event.logger)
            error = None if event.failure is None else event.failure.error()
            exc_info = None if error is None else (type(error), error, error.__traceback__)
            record = logger.makeRecord(
                logger.name, event.level, "", 0, event.name, (), exc_info, extra=dict(event.fields)
            )
            record.created, record.msecs = event.time, event.time % 1 * 1000
            logger.handle(record)

    @classmethod
    def _make_twin(cls, levels: Mapping[str, int], first: Mapping[str | None, int]) -> Self:
        twin = cls()
        twin._levels = levels
        twin._positions = PositionTracker(first)
        return twin

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Log the start of a pass."""
        run = current_run()
        if run is None or run in self._subjects:
            return
        self._positions.begin(run)
        self._begin(run, mod)
        self._log(_PASSES, logging.DEBUG, "pass_started", run, {})

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Log the end of a pass."""
        run = current_run()
        subject = self._end(run)
        if run is not None and subject is not None:
            data = {"seconds": run.seconds, "changed": mod is not subject[0]}
            self._log(_PASSES, logging.INFO, "pass_finished", run, data)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Log the failure of a pass."""
        self._fail(_PASSES, "pass_failed", current_run(), error)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Record the start of a function body."""
        self._begin(run, func)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Forget a function body that succeeded."""
        self._end(run)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Log the failure of a function body."""
        self._fail(_FUNCTIONS, "function_failed", run, error)

    def _begin(self, run: Run, subject: object) -> None:
        with self._lock:
            self._subjects.setdefault(run, (subject,))

    def _end(self, run: Run | None) -> tuple[object] | None:
        with self._lock:
            return None if run is None else self._subjects.pop(run, None)

    def _fail(self, logger: logging.Logger, event: str, run: Run | None, error: BaseException) -> None:
        subject = self._end(run)
        if run is None or subject is None:
            return
        is_cancelled = isinstance(error, anyio.get_cancelled_exc_class() | GeneratorExit)
        data = {"seconds": run.seconds, "error": ending_text(error)}
        shown = error if not is_cancelled and (run.body_of is not None or _is_from(error, run)) else None
        self._log(logger, logging.WARNING if is_cancelled else logging.ERROR, event, run, data, shown)

    def _log(
        self,
        logger: logging.Logger,
        level: int,
        event: str,
        run: Run,
        data: dict[str, Any],
        error: BaseException | None = None,
    ) -> None:
        levels = self._levels
        if not (logger.isEnabledFor(level) if levels is None else level >= levels[logger.name]):
            return
        position = self._positions.position(run)
        body = run if run.body_of is not None else run.parent
        fields = {
            "pass_name": run.info.name,
            "pass_path": "/".join(run.path) if position is None else position.text,
            "module_name": run.module,
            "function": None if body is None else body.function,
            **data,
        }
        if levels is None:
            logger.log(level, event, extra=fields, exc_info=error)
        else:
            failure = None if error is None else failure_of(error)
            self._events.append(_Event(logger.name, level, event, fields, failure, time()))


@dataclass(frozen=True, slots=True)
class _Event:
    """An event in a worker."""

    logger: str
    level: int
    name: str
    fields: Mapping[str, Any]
    failure: SerializedError | None
    time: float


def _enabled_level(logger: logging.Logger) -> int:
    """Return the lowest level at which a logger logs."""
    return max(logger.getEffectiveLevel(), logging.root.manager.disable + 1)


def _is_from(error: BaseException, run: Run) -> bool:
    """Return whether a run is the innermost that an error ended."""
    # The runner adds a `Whereabouts` note for the innermost run only.
    notes = getattr(error, "__notes__", ())
    return any(isinstance(note, Whereabouts) and note.run is run for note in notes)
