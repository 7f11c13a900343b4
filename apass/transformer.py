"""`Transformer`: what the runner needs of a pass, for what lies below the passes that it runs."""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from apass.core.analysis_manager import Preserves
from apass.core.context import PassContext
from apass.core.info import PassInfo

__all__ = ["Transformer"]

T = TypeVar("T")


class Transformer(Protocol[T]):
    """What the funnel needs of a pass. A Protocol, because the runner lies below the passes that call it."""

    info: PassInfo
    """The metadata of the pass."""
    preserves: Preserves
    """The analyses that still hold for its result."""

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return what the result depends on beside the input; None if it is not to be kept."""
        ...

    def transform(self, mod: T, ctx: PassContext) -> T | Awaitable[T]:
        """Do the work."""
        ...

    def is_cut_as_one(self) -> bool:
        """Tell whether the end of a budget cuts off the work as a whole, and not each of its parts."""
        ...
