"""`REQUESTS`: the requests of passes to the store, for explanations."""

from contextvars import ContextVar
from typing import Final, NamedTuple

from apass.core.run import Run

__all__ = ["REQUESTS", "CacheRequest"]


class CacheRequest(NamedTuple):
    """One request for the result of a pass, for a module or a function."""

    run: Run
    """The run of the pass, or of the body."""
    key: str
    """The digest of the key of the pass."""
    fingerprint: str
    """The fingerprint of the module or the function."""
    is_stored: bool
    """Whether the store had the result."""


REQUESTS: Final[ContextVar[list[CacheRequest] | None]] = ContextVar("apass_cache_requests", default=None)
"""The requests of this task so far; None if nothing reads them."""
