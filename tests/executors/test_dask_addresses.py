"""Addresses where no scheduler is: told soon, and with nothing left behind."""

import socket
import subprocess
import sys

import anyio
import pytest

from apass import ExecutorError
from apass.executors import dask
from apass.executors.dask import DaskExecutor

pytestmark = pytest.mark.anyio

ENTER = """
import anyio
from apass.executors.dask import DaskExecutor

async def main():
    try:
        async with DaskExecutor("nonsense"):
            pass
    except Exception as error:
        print(error)

anyio.run(main)
"""


@pytest.mark.parametrize(
    ("listens", "reason"),
    [(False, "after 0.2 s (.*Connection refused)"), (True, "what listens there gave no answer within 0.2 s")],
)
async def test_no_scheduler_is_told_soon(listens: bool, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "START_SECONDS", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen()
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        expected = f"no Dask scheduler answers at {address}; is one running there\\? .*{reason}"
        with pytest.raises(ExecutorError, match=expected):
            async with DaskExecutor(address):
                pytest.fail("there is none")


async def test_the_reason_is_told_though_the_last_try_was_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As happens now and then, when a try begins just before the time is over."""

    async def connect(address: str, timeout: float) -> None:
        raise OSError(f"Timed out trying to connect to {address} after {timeout} s") from TimeoutError()

    monkeypatch.setattr("distributed.comm.connect", connect)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ExecutorError, match=r"after 10\.0 s \(.*Connection refused\)$"):
            async with DaskExecutor(f"tcp://127.0.0.1:{taken.getsockname()[1]}"):
                pytest.fail("there is none")


async def test_what_gives_no_answer_is_told_though_all_tries_were_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """As happens on a busy machine, where each try takes longer than it may."""

    async def connect(address: str, timeout: float) -> None:
        await anyio.sleep(timeout)
        raise OSError(f"Timed out trying to connect to {address} after {timeout} s") from TimeoutError()

    monkeypatch.setattr("distributed.comm.connect", connect)
    monkeypatch.setattr(dask, "START_SECONDS", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ExecutorError, match=r"there\? what listens there gave no answer within 0\.1 s$"):
            async with DaskExecutor(f"tcp://127.0.0.1:{taken.getsockname()[1]}"):
                pytest.fail("there is none")


def test_a_program_ends_when_it_was_given_what_is_no_address() -> None:
    done = subprocess.run([sys.executable, "-c", ENTER], capture_output=True, text=True, check=True)
    said = "no Dask scheduler answers at nonsense; is one running there? missing port number in address 'nonsense'"
    assert (done.stdout, done.stderr) == (f"{said}\n", "")
