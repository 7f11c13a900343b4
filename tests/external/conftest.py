"""What all tests of external helpers share."""

from collections.abc import Iterator

import pytest
from stamina.instrumentation import set_on_retry_hooks

from apass.external import circuit_breaker as breakers
from tests.external.clock import Clock


@pytest.fixture(autouse=True)
def _quiet_retries() -> Iterator[None]:
    """Let retries pass without a line in the log each."""
    set_on_retry_hooks([])
    yield
    set_on_retry_hooks(None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all circuits."""
    made = Clock()
    monkeypatch.setattr(breakers, "monotonic", made)
    return made
