"""How a pass ended, in words: for the instruments that tell of failures."""

from typing import Final

__all__ = ["CANCELLED", "ending_text"]

CANCELLED: Final = "cancelled"
"""What is said of a pass that was cancelled: the event loops say who did it, by addresses in memory."""


def ending_text(error: BaseException) -> str:
    """Return the type and message of an error, `"cancelled"` for a cancellation.

    >>> ending_text(ValueError("no")), ending_text(ValueError()), ending_text(GeneratorExit())
    ('ValueError: no', 'ValueError', 'cancelled')
    """
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return text if isinstance(error, Exception | KeyboardInterrupt | SystemExit | BaseExceptionGroup) else CANCELLED
