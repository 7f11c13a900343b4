"""What bodies print and read in worker processes does not disturb the pipes that these are spoken to by."""

import pytest

from apass.executors import ProcessExecutor
from tests.executors import streams

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=1)


async def test_a_library_may_write_to_standard_output() -> None:
    assert await PROCESSES.map(streams.write, ["one\n", "three\n", "x" * 100_000]) == [8, 12, 200_000]


async def test_a_library_reads_nothing_from_standard_input() -> None:
    assert await PROCESSES.map(streams.read, [1, 10]) == [b"", b""]


async def test_so_do_children() -> None:
    assert await PROCESSES.map(streams.run, ["one", "two"]) == [0, 0]
