"""Text for the outcome of a pass that failed or was cancelled."""

from typing import Final

from apass.util.text import text_of_error

__all__ = ["CANCELLED", "ending_text"]

CANCELLED: Final = "cancelled"
"""Text for a cancelled pass. The message of a cancellation is not used: it contains memory addresses."""


def ending_text(error: BaseException) -> str:
    """Return the type and message of an error, `"cancelled"` for a cancellation.

    >>> ending_text(ValueError("no")), ending_text(ValueError()), ending_text(GeneratorExit())
    ('ValueError: no', 'ValueError', 'cancelled')
    """
    text = f"{type(error).__name__}: {text_of_error(error)}".rstrip(": ")
    return text if isinstance(error, Exception | KeyboardInterrupt | SystemExit | BaseExceptionGroup) else CANCELLED
