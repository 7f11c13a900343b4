"""Fixtures and checks for all tests; async tests run on asyncio and trio."""

import pytest
from hypothesis import HealthCheck, settings

# The time of an example depends on the machine more than on the code.
settings.register_profile("apass", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("apass")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Return the event loop of an async test."""
    return str(request.param)


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-xdist distribute the files in order.

    By default, files with few tests come last. These hold the longest tests, which one worker would run alone.
    """
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Reject test ids that contain object addresses.

    Such ids differ between processes, and pytest-xdist then runs no test at all.
    """
    unstable = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if unstable:
        raise pytest.UsageError(f"test ids contain addresses of objects; pass `ids` to parametrize: {unstable}")
