"""Clients of external helpers, with limits. Requires `apass[external]`.

`HttpService` is in `apass.external.http`, which requires `apass[http]`.
"""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.external.policy import Backoff, Breaker, Budget, Policy, Rate
    from apass.external.service import Service, ServiceCounts
    from apass.external.subprocess import ProcessHelper, run_process
else:
    # The rate limiter and the policies work without the library that the helpers need.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.external.policy": ["Backoff", "Breaker", "Budget", "Policy", "Rate"],
            "apass.external.service": ["Service", "ServiceCounts"],
            "apass.external.subprocess": ["ProcessHelper", "run_process"],
        },
    )

__all__ = [
    "Backoff",
    "Breaker",
    "Budget",
    "Policy",
    "ProcessHelper",
    "Rate",
    "Service",
    "ServiceCounts",
    "run_process",
]
