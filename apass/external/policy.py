"""`Policy`: how an external helper is asked. Values only; `Service` is what goes by them."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

__all__ = ["Backoff", "Breaker", "Policy", "Rate", "RetryOn"]

RetryOn = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool | float]
"""Which errors pass by themselves: their types, or a function that tells; a number is the seconds to wait before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait before another attempt: `initial * 2 ** n` and up to `jitter` more, at most `maximum` seconds.

    >>> Backoff(initial=0.5)
    Backoff(initial=0.5, maximum=5.0, jitter=1.0)
    """

    initial: float = 0.1
    """Seconds before the second attempt."""
    maximum: float = 5.0
    """The most seconds before any attempt. A helper that asks for a longer wait is not asked again."""
    jitter: float = 1.0
    """Up to so many seconds are added at random, so that those who failed together do not come back together."""

    def __post_init__(self) -> None:
        """Raise ValueError unless all are seconds."""
        _check_seconds("Backoff", self, "initial", "maximum", "jitter", zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """At most so many questions in a time, evenly spread but for `burst` at once.

    >>> Rate(questions=300, seconds=60).interval
    0.2
    """

    questions: float
    """So many questions ..."""
    seconds: float = 1.0
    """... in so many seconds."""
    burst: int = 1
    """So many may follow at once upon a pause."""

    def __post_init__(self) -> None:
        """Raise ValueError unless all are above 0."""
        _check_seconds("Rate", self, "questions", "seconds")
        _check_count("Rate", "burst", self.burst)

    @property
    def interval(self) -> float:
        """The seconds between two questions."""
        return self.seconds / self.questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """After `failures` in a row ask nobody for `rest` seconds, then one question; if that is answered, go on."""

    failures: int = 5
    """So many questions in a row must fail. An error that is the question's own fault is none of them."""
    rest: float = 30.0
    """Seconds in which every question fails at once with CircuitOpenError."""

    def __post_init__(self) -> None:
        """Raise ValueError unless both are above 0."""
        _check_count("Breaker", "failures", self.failures)
        _check_seconds("Breaker", self, "rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a helper is asked: how long, how often, how many at once. All limits hold for each event loop.

    >>> Policy(timeout=2.0, attempts=3, concurrency=8, rate=Rate(questions=100)).concurrency
    8
    >>> Policy(attempts=0)
    Traceback (most recent call last):
    ValueError: Policy(attempts=...) must be an int of at least 1, not 0
    """

    timeout: float | None = 30.0
    """Seconds for one attempt, from when it begins, not from when it is queued; None is no limit."""
    attempts: int = 1
    """How often to ask in all, while the errors are such as pass by themselves (see `retry_on`)."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long to wait between attempts."""
    retry_on: RetryOn | None = None
    """Which errors pass by themselves: are retried, and count for the breaker. None goes by the helper's own notion; a
    function's is OSError, with TimeoutError and ConnectionError, and `HelperError`."""
    rate: Rate | None = None
    """How many questions in a time; None is no limit."""
    concurrency: int | None = None
    """How many questions in flight at once; the others wait in line. None is no limit."""
    breaker: Breaker | None = None
    """When to stop asking; None is never."""
    hedge_after: float | None = None
    """After so many seconds without an answer the same question is asked a second time, if a place is free and the rate
    allows it; the first answer counts and the other request is cancelled. For questions that change nothing."""

    def __post_init__(self) -> None:
        """Raise ValueError for what is no limit, TypeError for what is no part of a policy."""
        _check_count("Policy", "attempts", self.attempts)
        if self.concurrency is not None:
            _check_count("Policy", "concurrency", self.concurrency)
        given = [one.name for one in fields(self) if getattr(self, one.name) is not None]
        _check_seconds("Policy", self, *({"timeout", "hedge_after"} & {*given}))
        for name, kind in (("backoff", Backoff), ("rate", Rate), ("breaker", Breaker)):
            if name in given and not isinstance(getattr(self, name), kind):
                raise TypeError(f"Policy({name}=...) must be a {kind.__name__}, not {getattr(self, name)!r}")


def _check_count(owner: str, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{owner}({name}=...) must be an int of at least 1, not {value!r}")


def _check_seconds(owner: str, values: object, *names: str, zero: bool = False) -> None:
    for name in names:
        value = getattr(values, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (value >= 0 if zero else value > 0):
            limit = "of at least 0" if zero else "above 0"
            raise ValueError(f"{owner}({name}=...) must be a number {limit}, not {value!r}")
