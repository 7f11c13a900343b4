"""`waiting_for`: naming what a pass waits for, for whoever watches it meanwhile."""

from collections.abc import Generator
from contextlib import contextmanager

from apass.core.context import PassContext
from apass.core.run import current_run

__all__ = ["waiting_for"]


@contextmanager
def waiting_for(what: str) -> Generator[None]:
    """Name what the pass at work waits for within the block, such as a service; nothing where no instrument listens.

    >>> with waiting_for("the cost model"):
    ...     pass
    """
    hooks = PassContext.current().hooks
    if not hooks.waits:
        yield
        return
    with hooks.waiting(current_run(), what):
        yield
