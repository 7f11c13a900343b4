"""How many workers there should be where nobody says."""

import os

__all__ = ["usable_cores"]


def usable_cores() -> int:
    """Return how many processors this program may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
