"""`LoggingInstrument`: logs passes as structured records of `logging`."""

import logging
from typing import Any, Final

import anyio

from apass.core.instrument import pass_instrument
from apass.instruments.support.events import Event, EventInstrument
from apass.instruments.support.outcomes import ending_text

__all__ = ["LoggingInstrument"]

_PASSES: Final = logging.getLogger("apass.pass")
_FUNCTIONS: Final = logging.getLogger("apass.function")

_LEVELS: Final = {"started": logging.DEBUG, "finished": logging.INFO, "failed": logging.ERROR}
"""The level of each kind of event."""


@pass_instrument
class LoggingInstrument(EventInstrument):
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

    def __init__(self) -> None:
        super().__init__(kinds=["started", "finished", "failed"], body_kinds=["failed"])

    def handle(self, event: Event, subject: object) -> None:
        """Log an event of a pass, or the failure of a body."""
        logger, name = (_FUNCTIONS, "function") if event.is_body else (_PASSES, "pass")
        error, level = event.error, _LEVELS[event.kind]
        is_cancelled = error is not None and isinstance(error, anyio.get_cancelled_exc_class() | GeneratorExit)
        if is_cancelled:
            level = logging.WARNING
        if not logger.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "pass_name": event.pass_name,
            "pass_path": event.path,
            "module_name": event.module,
            "function": event.function,
        }
        if event.kind != "started":
            fields["seconds"] = event.seconds
        if event.kind == "finished":
            fields["changed"] = event.changed
        exc_info = None
        if error is not None:
            fields["error"] = ending_text(error)
            if event.is_origin and not is_cancelled:
                exc_info = (type(error), error, error.__traceback__)
        record = logger.makeRecord(logger.name, level, "", 0, f"{name}_{event.kind}", (), exc_info, extra=fields)
        # That of a worker is logged when its module is done.
        record.created, record.msecs = event.time, event.time % 1 * 1000
        logger.handle(record)
