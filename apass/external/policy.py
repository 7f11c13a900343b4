"""`Policy`: limits for external helpers, as plain values that `Service` applies."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

__all__ = ["Backoff", "Breaker", "Policy", "Rate", "RetryOn"]

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
    """Limits of a service: timeout, retries, rate and concurrency, per event loop.

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
    breaker: Breaker | None = None
    """Circuit breaker. None is no breaker."""
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
        for name, kind in (("backoff", Backoff), ("rate", Rate), ("breaker", Breaker)):
            if name in defined and not isinstance(getattr(self, name), kind):
                raise TypeError(f"Policy({name}=...) must be a {kind.__name__}, got {getattr(self, name)!r}")


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
