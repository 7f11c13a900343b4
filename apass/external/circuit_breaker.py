"""`Circuit`: fails requests at once after repeated failures of a helper."""

from time import monotonic
from typing import Literal

from apass.errors import CircuitOpenError
from apass.external.policy import Breaker

__all__ = ["Circuit"]


class Circuit:
    """A circuit breaker.

    - Closed: requests are sent.
    - Open: requests fail at once.
    - Half-open, after the rest: one trial request is sent. Its outcome closes or opens the circuit.

    >>> circuit = Circuit("model", Breaker(failures=2))
    >>> for _ in range(2):
    ...     _ = circuit.enter(); circuit.failed(OSError("down"))
    >>> circuit.state
    'open'
    >>> circuit.enter()
    Traceback (most recent call last):
    apass.errors.CircuitOpenError: model failed 2 times in succession and rests for 30 s; last error: OSError: down
    """

    __slots__ = ("_breaker", "_failures", "_last", "_name", "_open_until", "_trial")

    def __init__(self, name: str, breaker: Breaker | None) -> None:
        self._name = name
        self._breaker = breaker
        self._failures = 0
        self._last = ""
        self._open_until: float | None = None
        self._trial: object = None

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        """The state: all requests are sent, none, or one trial."""
        if self._open_until is None:
            return "closed"
        return "open" if monotonic() < self._open_until else "half-open"

    def check(self) -> None:
        """Raise CircuitOpenError if no request may be sent now."""
        if self.state == "open" or self._trial is not None:
            assert self._breaker is not None
            message = f"{self._name} failed {self._failures} times in succession and rests for {self._breaker.rest:g} s"
            raise CircuitOpenError(f"{message}; last error: {self._last}")

    def enter(self) -> object:
        """Admit a request, and return its token.

        Raises:
            CircuitOpenError: if no request may be sent now.

        """
        self.check()
        token = object()
        if self.state == "half-open":
            self._trial = token
        return token

    def answered(self) -> None:
        """Close the circuit after an answer."""
        self._failures = 0
        self._open_until = self._trial = None

    def failed(self, error: Exception) -> None:
        """Count a failure of the helper.

        Open the circuit after the permitted number of failures, or after a failed trial.
        """
        self._failures += 1
        self._last = f"{type(error).__name__}: {error}"
        if self._breaker is not None and self._failures >= self._breaker.failures and self.state != "open":
            self._open_until = monotonic() + self._breaker.rest
            self._trial = None

    def abandon(self, token: object) -> None:
        """Forget a cancelled request. If it was the trial, permit another trial."""
        if self._trial is token:
            self._trial = None
