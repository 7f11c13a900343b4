"""Fixtures for tests of external helpers."""

from collections.abc import Iterator

import pytest
from stamina.instrumentation import set_on_retry_hooks

from apass.external import circuit_breaker as breakers
from tests.external.clock import Clock


@pytest.fixture(autouse=True)
def _quiet_retries() -> Iterator[None]:
    """Disable the log messages of retries."""
    set_on_retry_hooks([])
    yield
    set_on_retry_hooks(None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of all circuits by a manual one."""
    manual_clock = Clock()
    monkeypatch.setattr(breakers, "monotonic", manual_clock)
    return manual_clock
