"""Access to the private state of a context, for tests of the runner."""

from operator import attrgetter
from typing import cast

from apass import PassContext
from apass.core.scope import ContextState

__all__ = ["state_of"]


def state_of(ctx: PassContext) -> ContextState:
    """Return the private state of a context: scheduler, hooks, analyses and store."""
    return cast("ContextState", attrgetter("_state")(ctx))
