"""Exit statuses of the commands."""

from typing import Final

__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "OUTPUT_FAILED"]

FAILED: Final = 1
"""Exit status if a model failed; the other models were written."""
MISUSED: Final = 2
"""Exit status if nothing was started, because an option, a file or a pass is wrong."""
OUTPUT_FAILED: Final = 4
"""Exit status if the models were written, but another output could not be; 3 is a status of `apass replay`."""
INTERRUPTED: Final = 130
"""Exit status after Ctrl-C: 128 + SIGINT, as in a shell."""
