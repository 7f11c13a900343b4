"""Fixtures: a PostgreSQL server for the tests of a file, and empty stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.postgres import POSTGRES, PostgresServer, running_postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """Return a server for all tests of a file."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty schema."""
    return postgres.create_schema()


@pytest.fixture(params=["sqlite", POSTGRES])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the path or the URL of an empty store."""
    found: str = str(tmp_path / "jobs.db") if request.param == "sqlite" else request.getfixturevalue("url")
    return found
