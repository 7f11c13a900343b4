"""Fixtures: the tests of a file share one event loop per backend, and its workers."""

from collections.abc import AsyncIterator

import pytest


@pytest.fixture(scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Return the event loop of the async tests of a file."""
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
async def _one_loop(anyio_backend: str) -> AsyncIterator[None]:
    yield  # noqa: PT022  the loop is closed if the fixture returns
