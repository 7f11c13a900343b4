"""What onnx_ir writes to its log while one of its passes runs: kept off the terminal, errors among it returned."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

__all__ = ["caught_errors"]

_CAUGHT: ContextVar[list[logging.LogRecord] | None] = ContextVar("apass_onnx_records", default=None)
"""Where the records of the run in this task, or in the thread that works for it, are put."""


class _Quiet(logging.Handler):
    """Takes the records of the runs of passes, and leaves all others as if it were not there.

    Being there is enough to keep records from the terminal: where nobody has set up logging, Python prints those that
    no handler takes. What somebody has set up goes on as before.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Put the record with those of the run, or have it printed if Python would."""
        caught = _CAUGHT.get()
        if caught is not None:
            caught.append(record)
        elif not self._others() and logging.lastResort is not None and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)

    def _others(self) -> bool:
        return len(_LOGGER.handlers) > 1 or bool(logging.getLogger().handlers)


_LOGGER: Final = logging.getLogger("onnx_ir")
_LOGGER.addHandler(_Quiet())


@contextmanager
def caught_errors() -> Generator[list[str]]:
    """Take what is logged in the block; afterwards the list holds a text for each error that onnx_ir only logged."""
    records: list[logging.LogRecord] = []
    token = _CAUGHT.set(records)
    texts: list[str] = []
    try:
        yield texts
    finally:
        _CAUGHT.reset(token)
        texts += [text for text in map(_error_text, records) if text]


def _error_text(record: logging.LogRecord) -> str:
    """Return the message with its error, empty if there is none in the record."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    reason = f"{type(error).__name__}: {error}"
    message = record.getMessage()
    return message.replace("%s", reason) if "%s" in message else f"{message}: {reason}"
