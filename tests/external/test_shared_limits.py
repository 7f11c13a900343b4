"""Limits that processes share in Redis, in PostgreSQL and in a file."""

import json
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import psycopg
import pytest

from apass.errors import BudgetSpentError, StoreError
from apass.external import Budget, Policy, Rate, Service, limit_stores
from apass.external.limit_stores import limit_store
from tests.helpers.redis_server import needs_redis, running_redis
from tests.service.postgres import needs_postgres, running_postgres

pytestmark = [pytest.mark.anyio]

PROCESSES = 3


@pytest.fixture(
    scope="module",
    params=["file", pytest.param("redis", marks=needs_redis), pytest.param("postgres", marks=needs_postgres)],
)
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the place of the limits of all tests of the file."""
    with ExitStack() as stack:
        match request.param:
            case "redis":
                yield stack.enter_context(running_redis()).url
            case "postgres":
                yield stack.enter_context(running_postgres()).create()
            case _:
                yield str(tmp_path_factory.mktemp("limits") / "limits.db")


def start(where: str, kind: str, log: Path, backend: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.external.limited_client", where, kind, str(log), backend]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run(where: str, kind: str, log: Path, backend: str) -> tuple[Sequence[Any], list[list[float]]]:
    """Let processes ask; return what they printed, and the starts and ends in order."""
    processes = [start(where, kind, log, backend) for _ in range(PROCESSES)]
    printed = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    return printed, sorted(map(json.loads, log.read_text().splitlines()))


@pytest.fixture(autouse=True)
async def _no_limits(where: str) -> None:
    """Remove the limits of earlier tests."""
    async with limit_store(where).session() as session:
        while not await session.swap("model", (await session.read("model"))[0], "{}"):
            pass


async def now_at(where: str) -> float:
    """Return the time of the store."""
    return (await limit_store(where).read("model"))[1]


@pytest.mark.process
@pytest.mark.slow
async def test_processes_share_a_rate(where: str, tmp_path: Path, anyio_backend_name: str) -> None:
    before = await now_at(where)
    printed, log = await anyio.to_thread.run_sync(run, where, "rate", tmp_path / "log", anyio_backend_name)
    assert printed == PROCESSES * [[10, []]]
    starts = [at for at, step in log if step == 1]
    assert all(at >= before + index / 20 for index, at in enumerate(starts))


@pytest.mark.process
@pytest.mark.slow
async def test_processes_share_slots(where: str, tmp_path: Path, anyio_backend_name: str) -> None:
    printed, log = await anyio.to_thread.run_sync(run, where, "concurrency", tmp_path / "log", anyio_backend_name)
    assert printed == PROCESSES * [[10, []]]
    assert max(accumulate(step for _, step in log)) == 2


@pytest.mark.process
@pytest.mark.slow
async def test_processes_share_a_budget_that_survives(where: str, tmp_path: Path, anyio_backend_name: str) -> None:
    printed, log = await anyio.to_thread.run_sync(run, where, "budget", tmp_path / "log", anyio_backend_name)
    assert (sum(answered for answered, _ in printed), len(log)) == (5, 10)
    message = "model has spent its budget, 10 of 10 units; give it a larger one"
    assert {text for _, spent in printed for text in spent} == {message}
    service = Service(anyio.sleep, Policy(shared=where, budget=Budget(units=10)), name="model")
    with pytest.raises(BudgetSpentError, match=message):
        await service.ask(0)


@pytest.mark.process
@pytest.mark.slow
async def test_slot_of_a_killed_process_is_free_later(where: str, tmp_path: Path, anyio_backend_name: str) -> None:
    process = start(where, "hang", tmp_path / "log", anyio_backend_name)
    while not (tmp_path / "log").exists():  # noqa: ASYNC110  another process writes
        await anyio.sleep(0.01)
    process.kill()
    process.communicate()
    service = Service(anyio.sleep, Policy(shared=where, concurrency=1), name="model")
    with anyio.fail_after(60):
        await service.ask(0)


async def test_cancelled_request_frees_its_slot(where: str) -> None:
    service = Service(anyio.sleep, Policy(shared=where, concurrency=1), name="model")
    async with anyio.create_task_group() as group:
        group.start_soon(service.ask, 3600)
        while not service.counts.in_flight:  # noqa: ASYNC110  a thread or a socket answers
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    with anyio.fail_after(4):
        await service.ask(0)


@contextmanager
def stopped(where: str) -> Generator[None]:
    """Let the server answer nothing, for the block."""
    if where.startswith("redis"):
        with socket.create_connection(("127.0.0.1", urlsplit(where).port or 0)) as client:
            client.sendall(b"CLIENT PAUSE 600000 WRITE\r\n")
            assert client.recv(100) == b"+OK\r\n"
            yield
            client.sendall(b"CLIENT UNPAUSE\r\n")
            assert client.recv(100) == b"+OK\r\n"
    else:
        with psycopg.connect(where) as connection:
            connection.execute("LOCK TABLE apass_limits")
            yield


async def test_server_that_hangs_holds_up_no_deadline(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "://" not in where:
        pytest.skip("a file has no server")
    service = Service(anyio.sleep, Policy(shared=where, rate=Rate(questions=1000)), name="model")
    await service.ask(0)
    with anyio.fail_after(8), stopped(where):
        with anyio.move_on_after(0.1) as scope:
            await service.ask(0)
        assert scope.cancelled_caught
        monkeypatch.setattr(limit_stores, "TIMEOUT", 0.2)
        with pytest.raises(StoreError, match=r"limits cannot be used: it did not reply within 0\.2 s"):
            await service.ask(0)
    monkeypatch.undo()
    await service.ask(0)


async def test_budget_is_renewed_after_its_period(where: str) -> None:
    policy = Policy(shared=where, budget=Budget(units=1, seconds=3600))
    service = Service(anyio.sleep, policy, name="model")
    await service.ask(0)
    with pytest.raises(BudgetSpentError, match=r"1 of 1 units in 3,600 s; it is renewed in 3,[56]\d\d s"):
        await service.ask(0)
    store = limit_store(where)
    text, now = await store.read("model")
    assert await store.swap("model", text, json.dumps({"spent": 1, "since": now - 3601}))
    await service.ask(0)


async def test_damaged_limits_are_reported(where: str) -> None:
    store = limit_store(where)
    assert await store.swap("model", "{}", '{"spent": ')
    service = Service(anyio.sleep, Policy(shared=where, budget=Budget(units=1)), name="model")
    with pytest.raises(StoreError, match="the shared limits of model are damaged: Expecting value"):
        await service.ask(0)
    assert await store.swap("model", '{"spent": ', "{}")
