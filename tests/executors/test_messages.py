"""Messages that a plain function sends from a worker while it runs."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from apass.executors import ProcessExecutor, send_message
from apass.executors.dask import DaskExecutor

pytestmark = [pytest.mark.anyio, pytest.mark.process]


def count_to(number: int, gate: str) -> str:
    """Send numbers; after the first, wait until the caller has created `gate`."""
    for index in range(number):
        assert send_message(str(index).encode())
        while not Path(gate).exists():
            pass
    return "done"


def die_once(marker: str) -> int:
    """Kill the worker at the first call."""
    send_message(b"begun")
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


async def test_messages_arrive_while_function_runs(tmp_path: Path) -> None:
    gate, received = tmp_path / "gate", list[bytes]()

    def on_message(data: bytes) -> None:
        received.append(data)
        gate.touch()

    assert await ProcessExecutor(1).call(count_to, 3, str(gate), on_message=on_message) == "done"
    assert received == [b"0", b"1", b"2"]


async def test_messages_arrive_with_time_limit(tmp_path: Path) -> None:
    gate, received = tmp_path / "gate", list[bytes]()
    gate.touch()
    executor = ProcessExecutor(1, timeout=60)
    assert await executor.call(count_to, 2, str(gate), on_message=received.append) == "done"
    assert received == [b"0", b"1"]


async def test_messages_are_dropped_without_receiver(tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    executor = ProcessExecutor(1, timeout=60)
    assert await executor.call(count_to, 2, str(tmp_path / "gate")) == "done"


async def test_messages_come_again_after_lost_worker(tmp_path: Path) -> None:
    received: list[bytes] = []
    assert await ProcessExecutor(1).call(die_once, str(tmp_path / "marker"), on_message=received.append) == 1
    assert received == [b"begun", b"begun"]


@pytest.mark.slow
@pytest.mark.network
async def test_messages_arrive_from_dask_worker(tmp_path: Path) -> None:
    gate, received = tmp_path / "gate", list[bytes]()

    def on_message(data: bytes) -> None:
        received.append(data)
        gate.touch()

    async with DaskExecutor(workers=1) as executor:
        assert await executor.call(count_to, 3, str(gate), on_message=on_message) == "done"
        with anyio.fail_after(30):
            while len(received) < 3:  # noqa: ASYNC110  reports of Dask may arrive after the result
                await anyio.sleep(0.01)
    assert received == [b"0", b"1", b"2"]


def test_message_outside_of_worker_is_not_sent() -> None:
    assert not send_message(b"nothing")
