"""`--log-level`: what the passes do, as lines of a log."""

import json
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Final

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.instruments import LoggingInstrument

__all__ = ["LogFormat", "LogLevel", "LogOptions"]

_OWN: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime"})
"""The attributes that every record has; what it has beside them are the fields of an event."""


class LogLevel(Enum):
    """What is logged: this and what is more serious."""

    DEBUG = "debug"
    """The start of each pass."""
    INFO = "info"
    """The end of each pass."""
    WARNING = "warning"
    """Cancelled passes and functions."""
    ERROR = "error"
    """Failed passes and functions."""


class LogFormat(Enum):
    """How an event is written."""

    TEXT = "text"
    """A line to read."""
    JSON = "json"
    """A line for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What the command line says of logs."""

    log_level: Annotated[
        LogLevel | None,
        typer.Option("--log-level", help="Log what passes do, on standard error.", rich_help_panel=PANEL),
    ] = None
    """What to log."""
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help=r"How to write it \[text].", rich_help_panel=PANEL),
    ] = None
    """How to write it."""

    def watch(self, run: Run) -> Watch | None:
        """Return what logs, if it is asked for.

        Raises:
            InputError: if there is a format and no level.

        """
        if self.log_level is None:
            if self.log_format is not None:
                raise InputError("--log-format needs --log-level, what to log")
            return None
        return _Logs(logging.getLevelNamesMapping()[self.log_level.name], self.log_format is LogFormat.JSON)


class _Logs(Watch):
    def __init__(self, level: int, as_json: bool) -> None:
        self._level = level
        self._handler = _ToStandardError()
        self._handler.setFormatter(_AsJson() if as_json else _AsText())
        self._logger = logging.getLogger("apass")
        self._before = self._logger.level, self._logger.propagate

    def instruments(self) -> Iterable[object]:
        return (LoggingInstrument(),)

    def begin(self) -> None:
        self._logger.addHandler(self._handler)
        self._logger.setLevel(self._level)
        self._logger.propagate = False

    def finish(self, show: Callable[[str], None]) -> None:
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)
        self._logger.removeHandler(self._handler)


class _ToStandardError(logging.Handler):
    """Writes to what `sys.stderr` is at the time, which a bar on the terminal replaces while it lasts."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)


class _AsText(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name is logging's
        fields = " ".join(f"{key}={_text(value)}" for key, value in _fields(record).items() if value is not None)
        return f"{super().formatMessage(record)} {fields}".rstrip()


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"time": time, "level": record.levelname.lower(), "logger": record.name, "event": record.getMessage()}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**told, **_fields(record)}, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _OWN}


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6f}"
    text = str(value)
    return repr(text) if not text or any(char.isspace() for char in text) else text
