"""External helpers: what a pass asks and waits for, within limits. Needs `pip install apass[external]`.

`HttpService` is in `apass.external.http`, which needs `pip install apass[http]`.
"""

from apass.external.policy import Backoff, Breaker, Policy, Rate
from apass.external.service import Counts, Service
from apass.external.subprocess import ProcessHelper, run_process

__all__ = ["Backoff", "Breaker", "Counts", "Policy", "ProcessHelper", "Rate", "Service", "run_process"]
