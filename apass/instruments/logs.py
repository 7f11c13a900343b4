"""`LoggingInstrument`: what passes do, as records of the standard `logging`; for services that keep logs."""

import logging
from threading import Lock
from time import perf_counter
from typing import Any, Final

import anyio

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering
from apass.core.run import Run, Whereabouts, current_run
from apass.instruments.support.outcomes import ending_text

__all__ = ["LoggingInstrument"]

_PASSES: Final = logging.getLogger("apass.pass")
_FUNCTIONS: Final = logging.getLogger("apass.function")


@pass_instrument
class LoggingInstrument:
    """Logs each pass on the logger `apass.pass`, and each function that failed on `apass.function`.

    The messages are events, always the same, with what belongs to them as attributes of the record:

    - `pass_started`, at level DEBUG;
    - `pass_finished`, at INFO, with `seconds` and `changed`;
    - `pass_failed`, at ERROR, with `seconds` and `error`; at WARNING if it was cancelled;
    - `function_failed`, at ERROR, with `function`, `seconds` and `error`; at WARNING if it was cancelled.

    Each has `pass_name`, `pass_path` (as in `Position.text`), `module_name` (logging keeps `module` for itself), and
    `function`, the one whose body called the pass, or None. What no logger is enabled for costs next to nothing. The
    error itself is on the record of the innermost pass that it ended, as `exc_info`, and on no other.

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

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._begun: dict[Run, tuple[float, object]] = {}
        self._lock = Lock()

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Log that a pass starts."""
        run = current_run()
        if run is None or run in self._begun:
            return
        self._numbering.begin(run)
        self._begin(run, mod)
        self._log(_PASSES, logging.DEBUG, "pass_started", run, {})

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Log that it has ended."""
        run = current_run()
        begun = self._end(run)
        if run is not None and begun is not None:
            told = {"seconds": perf_counter() - begun[0], "changed": mod is not begun[1]}
            self._log(_PASSES, logging.INFO, "pass_finished", run, told)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Log that it failed."""
        self._fail(_PASSES, "pass_failed", current_run(), error)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Note when it began."""
        self._begin(run, func)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Forget it."""
        self._end(run)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Log that it failed."""
        self._fail(_FUNCTIONS, "function_failed", run, error)

    def _begin(self, run: Run, subject: object) -> None:
        with self._lock:
            self._begun.setdefault(run, (perf_counter(), subject))

    def _end(self, run: Run | None) -> tuple[float, object] | None:
        with self._lock:
            return None if run is None else self._begun.pop(run, None)

    def _fail(self, logger: logging.Logger, event: str, run: Run | None, error: BaseException) -> None:
        begun = self._end(run)
        if run is None or begun is None:
            return
        is_cancelled = isinstance(error, anyio.get_cancelled_exc_class() | GeneratorExit)
        told = {"seconds": perf_counter() - begun[0], "error": ending_text(error)}
        shown = error if not is_cancelled and (run.body_of is not None or _is_from(error, run)) else None
        self._log(logger, logging.WARNING if is_cancelled else logging.ERROR, event, run, told, shown)

    def _log(
        self,
        logger: logging.Logger,
        level: int,
        event: str,
        run: Run,
        told: dict[str, Any],
        error: BaseException | None = None,
    ) -> None:
        if not logger.isEnabledFor(level):
            return
        position = self._numbering.position(run)
        body = run if run.body_of is not None else run.parent
        fields = {
            "pass_name": run.info.name,
            "pass_path": "/".join(run.path) if position is None else position.text,
            "module_name": run.module,
            "function": None if body is None else body.function,
        }
        logger.log(level, event, extra={**fields, **told}, exc_info=error)


def _is_from(error: BaseException, run: Run) -> bool:
    """Tell whether a run is the innermost that an error ended: the note that says where is about it."""
    notes = getattr(error, "__notes__", ())
    return any(isinstance(note, Whereabouts) and note.run is run for note in notes)
