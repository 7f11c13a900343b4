"""All tests of a file share one event loop of each kind, and with it the worker processes."""

from collections.abc import AsyncIterator

import pytest


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop of the async tests of a file."""
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
async def _one_loop(anyio_backend: str) -> AsyncIterator[None]:
    yield  # noqa: PT022  a fixture that returns would let go of the loop
