"""Addresses without a scheduler: DaskExecutor raises soon and cleans up."""

import socket
import subprocess
import sys

import anyio
import pytest

from apass.errors import ExecutorError
from apass.executors import dask_connection
from apass.executors.dask import DaskExecutor

pytestmark = [pytest.mark.anyio, pytest.mark.network]

ENTER = """
import anyio
from apass.executors.dask import DaskExecutor

async def main():
    try:
        async with DaskExecutor("dask://nonsense"):
            pass
    except Exception as error:
        print(error)

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("listens", "reason"),
    [(False, "after 0.2 s (.*Connection refused)"), (True, "the server at this address did not reply within 0.2 s")],
)
async def test_missing_scheduler_raises_before_the_timeout(
    listens: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_connection, "START_SECONDS", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen()
        address = f"dask://127.0.0.1:{taken.getsockname()[1]}"
        expected = f"no Dask scheduler replied at {address}; check that it is running: .*{reason}"
        with pytest.raises(ExecutorError, match=expected):
            async with DaskExecutor(address):
                pytest.fail("DaskExecutor connected to no scheduler")


async def test_error_names_reason_when_last_attempt_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an attempt that begins just before the timeout."""

    async def connect(address: str, timeout: float, **_: object) -> None:
        raise OSError(f"Timed out trying to connect to {address} after {timeout} s") from TimeoutError()

    monkeypatch.setattr("distributed.comm.connect", connect)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ExecutorError, match=r"after 10\.0 s \(.*Connection refused\)$"):
            async with DaskExecutor(f"dask://127.0.0.1:{taken.getsockname()[1]}"):
                pytest.fail("DaskExecutor connected to no scheduler")


async def test_silent_server_is_reported_when_attempts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a busy machine, where every attempt exceeds its timeout."""

    async def connect(address: str, timeout: float, **_: object) -> None:
        await anyio.sleep(timeout)
        raise OSError(f"Timed out trying to connect to {address} after {timeout} s") from TimeoutError()

    monkeypatch.setattr("distributed.comm.connect", connect)
    monkeypatch.setattr(dask_connection, "START_SECONDS", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ExecutorError, match=r"running: the server at this address did not reply within 0\.1 s$"):
            async with DaskExecutor(f"dask://127.0.0.1:{taken.getsockname()[1]}"):
                pytest.fail("DaskExecutor connected to no scheduler")


@pytest.mark.process
@pytest.mark.slow
def test_program_ends_when_address_is_invalid() -> None:
    done = subprocess.run([sys.executable, "-c", ENTER], capture_output=True, text=True, check=True)
    message = (
        "no Dask scheduler replied at dask://nonsense; check that it is running: "
        "missing port number in address 'nonsense'"
    )
    assert (done.stdout, done.stderr) == (f"{message}\n", "")
