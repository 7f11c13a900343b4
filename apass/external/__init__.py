"""External helpers: what a pass asks and waits for, within limits. Needs `pip install apass[external]`."""

from apass.external.policy import Backoff, Breaker, Policy, Rate
from apass.external.service import Counts, Service

__all__ = ["Backoff", "Breaker", "Counts", "Policy", "Rate", "Service"]
