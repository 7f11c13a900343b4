"""Captures the log of onnx_ir while one of its passes runs.

The records are not printed, and the errors among them are returned.
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from apass.util.text import short_reason

__all__ = ["caught_errors"]

_CAUGHT: ContextVar[list[logging.LogRecord] | None] = ContextVar("apass_onnx_records", default=None)
"""The records of the run in this task, or in the worker thread that runs its pass."""


class _Quiet(logging.Handler):
    """Captures the records of runs of passes, and leaves other records alone."""

    # If an application has not configured logging, Python prints records without a handler (`logging.lastResort`).
    # This handler alone turns that off for onnx_ir, so that `emit` must do it for records outside a run. Handlers of
    # the application receive all records as before, because records still propagate.

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record to those of the run, or print it if Python would."""
        caught = _CAUGHT.get()
        if caught is not None:
            caught.append(record)
        elif not self._has_others() and logging.lastResort is not None and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)

    def _has_others(self) -> bool:
        return len(_LOGGER.handlers) > 1 or bool(logging.getLogger().handlers)


_LOGGER: Final = logging.getLogger("onnx_ir")
_LOGGER.addHandler(_Quiet())


@contextmanager
def caught_errors() -> Generator[list[str]]:
    """Capture the log in the block, and yield a list of errors.

    After the block, the list has a text for each error that onnx_ir logged but did not raise.
    """
    records: list[logging.LogRecord] = []
    token = _CAUGHT.set(records)
    texts: list[str] = []
    try:
        yield texts
    finally:
        _CAUGHT.reset(token)
        texts += [text for text in map(_error_text, records) if text]


def _error_text(record: logging.LogRecord) -> str:
    """Return the message with its error; an empty string if there is no error."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    reason = short_reason(error)
    message = record.getMessage()
    # onnx_ir logs some messages with a placeholder but without arguments.
    return message.replace("%s", reason) if "%s" in message else f"{message}: {reason}"
