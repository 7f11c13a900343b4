"""Every async test runs on asyncio and on trio."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.idle_clock import IdleClock

# How long an example takes, to make or to run, says more about the machine than about the code.
settings.register_profile("apass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("apass")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str | tuple[str, dict[str, Any]]:
    """The event loop of an async test; of one that asks for an idle clock, with that clock."""
    if isinstance(request.param, IdleClock):
        return request.param.begin(request.getfixturevalue("monkeypatch"))
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names of tests that are others in each process: pytest-xdist would run none at all."""
    unsteady = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unsteady:
        raise pytest.UsageError(f"names of tests hold addresses of objects; give them ids: {unsteady}")
