"""Clients of external helpers, with limits. Requires `apass[external]`.

`HttpService` is in `apass.external.http`, which requires `apass[http]`.
"""

from apass.external.policy import Backoff, Breaker, Policy, Rate
from apass.external.service import Service, ServiceCounts
from apass.external.subprocess import ProcessHelper, run_process

Counts = ServiceCounts
"""The former name of `ServiceCounts`."""

__all__ = ["Backoff", "Breaker", "Counts", "Policy", "ProcessHelper", "Rate", "Service", "ServiceCounts", "run_process"]
