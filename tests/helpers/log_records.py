"""Capturing of the records of the logger `apass`."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

FIELDS = ("pass_name", "pass_path", "module_name", "function", "changed", "error")


class RecordHandler(logging.Handler):
    """Stores log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Store the record."""
        self.records.append(record)

    def events(self) -> list[tuple[Any, ...]]:
        """Return logger, level, message and fields of each record, without times."""
        events: list[tuple[Any, ...]] = []
        for record in self.records:
            fields = {key: vars(record)[key] for key in FIELDS if vars(record).get(key) is not None}
            events.append((record.name, record.levelname, record.getMessage(), fields))
        return events


@contextmanager
def listening(level: int = logging.DEBUG, handler: logging.Handler | None = None) -> Generator[RecordHandler]:
    """Capture the records of the logger `apass`."""
    logger, captured = logging.getLogger("apass"), RecordHandler()
    logger.addHandler(handler or captured)
    logger.setLevel(level)
    try:
        yield captured
    finally:
        logger.removeHandler(handler or captured)
        logger.setLevel(logging.NOTSET)
