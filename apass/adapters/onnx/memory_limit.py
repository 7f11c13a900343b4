"""`memory_limit`: a limit on the memory that a block allocates."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["memory_limit"]


@contextmanager
def memory_limit(size: int) -> Generator[None]:
    """Limit the memory that this process allocates in the block to `size` bytes.

    Only Linux enforces such a limit.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().partition(" ")[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + size
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
