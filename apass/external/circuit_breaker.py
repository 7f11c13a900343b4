"""`Circuit`: opens when a helper fails again and again, so that nobody waits for it in vain."""

from time import monotonic
from typing import Literal

from apass.errors import CircuitOpenError
from apass.external.policy import Breaker

__all__ = ["Circuit"]


class Circuit:
    """Closed: questions go through. Open: they fail at once. After a rest one may try, and its fate decides.

    >>> circuit = Circuit("model", Breaker(failures=2))
    >>> for _ in range(2):
    ...     _ = circuit.enter(); circuit.failed(OSError("down"))
    >>> circuit.state
    'open'
    >>> circuit.enter()
    Traceback (most recent call last):
    apass.errors.CircuitOpenError: model failed 2 times in a row and rests for 30 s; the last error: OSError: down
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
        """Whether questions go through: all, none, or one for trial."""
        if self._open_until is None:
            return "closed"
        return "open" if monotonic() < self._open_until else "half-open"

    def check(self) -> None:
        """Raise CircuitOpenError if no question may go through now."""
        if self.state == "open" or self._trial is not None:
            assert self._breaker is not None
            what = f"{self._name} failed {self._failures} times in a row and rests for {self._breaker.rest:g} s"
            raise CircuitOpenError(f"{what}; the last error: {self._last}")

    def enter(self) -> object:
        """Let a question through and return its ticket; CircuitOpenError if none may."""
        self.check()
        ticket = object()
        if self.state == "half-open":
            self._trial = ticket
        return ticket

    def answered(self) -> None:
        """Close the circuit: the helper is there."""
        self._failures = 0
        self._open_until = self._trial = None

    def failed(self, error: Exception) -> None:
        """Count a failure of the helper; at the last one that is allowed, and at that of a trial, open the circuit."""
        self._failures += 1
        self._last = f"{type(error).__name__}: {error}"
        if self._breaker is not None and self._failures >= self._breaker.failures and self.state != "open":
            self._open_until = monotonic() + self._breaker.rest
            self._trial = None

    def abandon(self, ticket: object) -> None:
        """Forget a question that was cancelled: if it was the trial, another may be."""
        if self._trial is ticket:
            self._trial = None
