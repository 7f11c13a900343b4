"""Tables within one test: a row that fails names itself."""

from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["row"]


@contextmanager
def row(name: object) -> Generator[None]:
    """Add the name of a row to the error that its checks raise."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in the row {name}")
        raise
