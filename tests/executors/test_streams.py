"""Standard streams of bodies in workers are separate from the workers' own pipes."""

import pytest

from apass.executors import ProcessExecutor
from tests.executors import streams

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=1)


@pytest.mark.process
async def test_body_may_write_to_file_descriptors() -> None:
    assert await PROCESSES.map(streams.write, ["one\n", "three\n", "x" * 100_000]) == [8, 12, 200_000]


async def test_standard_input_of_a_body_is_empty() -> None:
    assert await PROCESSES.map(streams.read, [1, 10]) == [b"", b""]


async def test_children_of_a_body_have_the_same_streams() -> None:
    assert await PROCESSES.map(streams.run, ["one", "two"]) == [0, 0]
