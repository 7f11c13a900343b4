"""Tables within one test: a row that fails names itself."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

__all__ = ["row"]


@contextmanager
def row(name: object) -> Generator[None]:
    """Add the name of a row to the error that its checks raise."""
    try:
        yield
    # `pytest.raises` fails with an error that is no Exception.
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"in the row {name}")
        raise
