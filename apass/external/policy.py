"""`Policy`: limits for external helpers, as plain values that `Service` applies."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

__all__ = ["Backoff", "Breaker", "Budget", "Policy", "Rate", "RetryOn"]

SCHEMES: Final = ("redis", "rediss", "postgresql", "postgres")
"""The schemes of URLs that name a place of shared limits."""

RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool | float]
"""The transient errors: their types, or a function.

The function returns whether to retry, or the delay before the retry in seconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential delay between attempts.

    The delay is `initial * 2 ** n` seconds and up to `jitter` more, at most `maximum`.

    >>> Backoff(initial=0.5)
    Backoff(initial=0.5, maximum=5.0, jitter=1.0)
    """

    initial: float = 0.1
    """Delay in seconds before the second attempt."""
    maximum: float = 5.0
    """Maximum delay in seconds.

    If a helper requests a longer delay, the request is not retried.
    """
    jitter: float = 1.0
    """Maximum random addition in seconds.

    It spreads the retries of requests that failed together.
    """

    def __post_init__(self) -> None:
        """Raise ValueError unless all fields are non-negative numbers."""
        _check_seconds("Backoff", self, "initial", "maximum", "jitter", zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Limit of requests per period, evenly spread except for a `burst`.

    >>> Rate(questions=300, seconds=60).interval
    0.2
    """

    questions: float
    """Number of requests per period."""
    seconds: float = 1.0
    """Length of the period in seconds."""
    burst: int = 1
    """Number of requests that may start together after a pause."""

    def __post_init__(self) -> None:
        """Raise ValueError unless all fields are positive."""
        _check_seconds("Rate", self, "questions", "seconds")
        _check_count("Rate", "burst", self.burst)

    @property
    def interval(self) -> float:
        """Seconds between two requests."""
        return self.seconds / self.questions


def _one(_request: Any, _answer: Any) -> float:
    return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limit of what answered requests may cost together, such as tokens.

    A request starts as long as the budget is not spent, so that requests which run at once may exceed it.

    >>> budget = Budget(units=1_000_000, seconds=86_400, cost=lambda request, answer: answer["tokens"])
    >>> budget.cost("question", {"tokens": 7})
    7
    """

    units: float
    """What the requests of a period may cost."""
    seconds: float | None = None
    """Length of the period in seconds, from its first request. None is no end."""
    cost: Callable[[Any, Any], float] = _one
    """Returns the cost of a request and its answer. By default, each answer costs 1."""

    def __post_init__(self) -> None:
        """Raise ValueError unless the numbers are positive, TypeError for `cost`."""
        _check_seconds("Budget", self, "units", *([] if self.seconds is None else ["seconds"]))
        if not callable(self.cost):
            raise TypeError(f"Budget(cost=...) must be a function of a request and its answer, got {self.cost!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Circuit breaker: stops requests after repeated failures.

    After `failures` in succession, no request is sent for `rest` seconds. Then one trial request is sent. If it is
    answered, the circuit closes.
    """

    failures: int = 5
    """Number of successive failed requests that opens the circuit.

    Errors caused by a request itself do not count.
    """
    rest: float = 30.0
    """Seconds in which every request fails at once with CircuitOpenError."""

    def __post_init__(self) -> None:
        """Raise ValueError unless both fields are positive."""
        _check_count("Breaker", "failures", self.failures)
        _check_seconds("Breaker", self, "rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of a service: timeout, retries, rate, concurrency and budget.

    They hold in one event loop, or in all processes that share them.

    >>> Policy(timeout=2.0, attempts=3, concurrency=8, rate=Rate(questions=100)).concurrency
    8
    >>> Policy(attempts=0)
    Traceback (most recent call last):
    ValueError: Policy(attempts=...) must be a positive int, got 0
    """

    timeout: float | None = 30.0
    """Time limit of one attempt in seconds.

    It starts when the attempt starts, not when it is queued. None is no limit.
    """
    attempts: int = 1
    """Maximum number of attempts. Only transient errors are retried (see `retry_on`)."""
    backoff: Backoff = field(default_factory=Backoff)
    """Delay between attempts."""
    retry_on: RetryOn | None = None
    """The transient errors, which are retried and count for the breaker.

    None uses the service's default. For a function this is OSError, with its subclasses TimeoutError and
    ConnectionError, and `HelperError`.
    """
    rate: Rate | None = None
    """Limit of requests per period. None is no limit."""
    concurrency: int | None = None
    """Maximum number of concurrent requests; others are queued. None is no limit."""
    budget: Budget | None = None
    """Limit of the cost of the requests. Further ones fail with BudgetSpentError. None is no limit."""
    shared: str | Path | None = None
    """Where the rate, the concurrency and the budget are kept, for all processes that name it.

    It is `redis://HOST`, `postgresql://HOST/DATABASE`, or a file of SQLite for the processes of one machine. Services
    with the same name share their limits. None keeps them in the event loop.
    """
    breaker: Breaker | None = None
    """Circuit breaker, in each event loop. None is no breaker."""
    hedge_after: float | None = None
    """Delay in seconds after which a slow request is sent a second time.

    This requires a free slot and permission from the rate limiter. The first answer is returned, and the other attempt
    is cancelled. Use it for requests without side effects.
    """

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid limit, TypeError for a part of the wrong type."""
        _check_count("Policy", "attempts", self.attempts)
        if self.concurrency is not None:
            _check_count("Policy", "concurrency", self.concurrency)
        defined = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        _check_seconds("Policy", self, *({"timeout", "hedge_after"} & {*defined}))
        for name, kind in (("backoff", Backoff), ("rate", Rate), ("budget", Budget), ("breaker", Breaker)):
            if name in defined and not isinstance(getattr(self, name), kind):
                raise TypeError(f"Policy({name}=...) must be a {kind.__name__}, got {getattr(self, name)!r}")
        if self.shared is not None:
            _check_shared(self)


def _check_shared(policy: Policy) -> None:
    """Raise an error unless the limits of a policy can be shared."""
    if not isinstance(policy.shared, str | Path) or not str(policy.shared):
        raise TypeError(f"Policy(shared=...) must be a URL or the path of a file, got {policy.shared!r}")
    scheme, found, _ = str(policy.shared).partition("://")
    if isinstance(policy.shared, str) and found and scheme not in SCHEMES:
        raise ValueError(
            f"Policy(shared=...) must be redis://HOST, postgresql://HOST/DATABASE or the path of a file, got "
            f"{scheme}://..."
        )
    if policy.concurrency is not None and policy.timeout is None:
        raise ValueError(
            "Policy(shared=..., concurrency=...) needs a timeout, after which the slot of a killed process is free"
        )
    if policy.hedge_after is not None:
        raise ValueError("Policy(shared=..., hedge_after=...) cannot be combined: a hedge needs a slot at once")


def _check_count(owner: str, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{owner}({name}=...) must be a positive int, got {value!r}")


def _check_seconds(owner: str, values: object, *names: str, zero: bool = False) -> None:
    for name in names:
        value = getattr(values, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (value >= 0 if zero else value > 0):
            expected = "non-negative" if zero else "positive"
            raise ValueError(f"{owner}({name}=...) must be a {expected} number, got {value!r}")
