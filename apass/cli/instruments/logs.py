"""`--log-level`: log records of pass events on standard error."""

import json
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Final

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import RECORD
from apass.errors import InputError
from apass.util.printable import printable

__all__ = ["LogFormat", "LogLevel", "LogOptions"]

_STANDARD: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime"})
"""Attributes of every log record. All others are the fields of an event."""


class LogLevel(Enum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    """The start of each pass."""
    INFO = "info"
    """The end of each pass."""
    WARNING = "warning"
    """Cancelled passes and functions."""
    ERROR = "error"
    """Failed passes and functions."""


class LogFormat(Enum):
    """The format of a log record."""

    TEXT = "text"
    """One readable line."""
    JSON = "json"
    """One line of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The options of logging."""

    PANEL: ClassVar[str] = RECORD

    log_level: Annotated[
        LogLevel | None, typer.Option("--log-level", help="Log pass events of this level and above to standard error.")
    ] = None
    log_format: Annotated[
        LogFormat | None, typer.Option("--log-format", help=r"Set the format of log records \[text].")
    ] = None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that logs, or None if it is not enabled.

        Raises:
            InputError: if a format is set without a level.

        """
        if self.log_level is None:
            if self.log_format is not None:
                raise InputError("--log-format needs --log-level")
            return None
        return _Logs(logging.getLevelNamesMapping()[self.log_level.name], self.log_format is LogFormat.JSON)


class _Logs(RunObserver):
    def __init__(self, level: int, as_json: bool) -> None:
        self._level = level
        self._handler = _ToStandardError()
        self._handler.setFormatter(_AsJson() if as_json else _AsText())
        self._logger = logging.getLogger("apass")
        self._before = self._logger.level, self._logger.propagate

    def instruments(self) -> Iterable[object]:
        return (instruments.LoggingInstrument(),)

    def begin(self) -> None:
        self._logger.addHandler(self._handler)
        self._logger.setLevel(self._level)
        self._logger.propagate = False

    def finish(self, show: Callable[[str], None]) -> None:
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)
        self._logger.removeHandler(self._handler)


class _ToStandardError(logging.Handler):
    """Writes to the current `sys.stderr`."""

    # Unlike `logging.StreamHandler`, which keeps the stream: rich replaces `sys.stderr` while a bar is shown, so that
    # lines are printed above the bar.

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


class _AsText(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  name required by logging
        fields = " ".join(f"{key}={_text(value)}" for key, value in _fields(record).items() if value is not None)
        # One line for each record, whatever the names in it.
        return f"{printable(super().formatMessage(record))} {fields}".rstrip()

    def formatException(self, ei: Any) -> str:  # noqa: N802  name required by logging
        # Indented, so that no line of a message looks like a record.
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = {"time": time, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**event, **_fields(record)}, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    text = str(value)
    return repr(text) if not text or " " in text or not text.isprintable() else text
