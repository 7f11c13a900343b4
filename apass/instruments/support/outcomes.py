"""Text for the outcome of a pass that failed or was cancelled."""

from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

from apass.core.tracebacks import RemoteTraceback
from apass.util.text import count_of, text_of_error

__all__ = ["CANCELLED", "ending_text", "inner_errors", "is_cancellation", "leaves_of"]

CANCELLED: Final = "cancelled"
"""Text for a cancelled pass. The message of a cancellation is not used: it contains memory addresses."""


MOST_INNER: Final = 20
"""Errors of a group that are named; it may have one for each function."""


def ending_text(error: BaseException) -> str:
    """Return the type and message of an error, `"cancelled"` for a cancellation.

    >>> ending_text(ValueError("no")), ending_text(ValueError()), ending_text(GeneratorExit())
    ('ValueError: no', 'ValueError', 'cancelled')
    """
    return CANCELLED if is_cancellation(error) else _type_and_text(error)


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Iterate over the errors of nested groups, or over an error that is no group.

    >>> list(leaves_of(ExceptionGroup("outer", [ExceptionGroup("inner", [KeyError()]), OSError()])))
    [KeyError(), OSError()]
    """
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
        yield from leaves_of(inner)


def inner_errors(error: BaseException) -> list[str]:
    """Return notes that name the errors of a group; none for another error.

    >>> inner_errors(ExceptionGroup("several functions failed", [ValueError("no")])), inner_errors(ValueError("no"))
    (['error in the group: ValueError: no'], [])
    """
    leaves = leaves_of(error)
    if not isinstance(error, BaseExceptionGroup):
        return []
    texts: list[str] = []
    for leaf in islice(leaves, MOST_INNER):
        notes = [str(note) for note in getattr(leaf, "__notes__", ()) if not isinstance(note, RemoteTraceback)]
        texts.append("; ".join([f"error in the group: {_type_and_text(leaf)}", *notes]))
    left = sum(1 for _ in leaves)
    return [*texts, f"the group has {count_of(left, 'further error')}"] if left else texts


def _type_and_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of_error(error)}".rstrip(": ")


def is_cancellation(error: BaseException) -> bool:
    """Return whether an error is a cancellation, or closes a coroutine.

    It may be called outside of an event loop.
    """
    if isinstance(error, Exception):
        return False
    return isinstance(error, GeneratorExit) or type(error).__name__ in ("CancelledError", "Cancelled")
