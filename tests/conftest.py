"""Every async test runs on asyncio and on trio."""

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("apass", deadline=None)
settings.load_profile("apass")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of an async test."""
    return str(request.param)
