"""A record of calls that a cacheable pass may use."""

from typing import Any

__all__ = ["Calls"]


class Calls(list[Any]):
    """A list of calls. Results do not depend on it, so its fingerprint is constant."""

    def __fingerprint__(self) -> str:
        """Return a constant."""
        return "calls"
