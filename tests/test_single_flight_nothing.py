"""A computation that gives None has given its result."""

import anyio
import pytest

from apass.concurrency.single_flight import SingleFlight

pytestmark = pytest.mark.anyio


async def test_nothing_is_a_result_too() -> None:
    flights, computed = SingleFlight[str, None](), list[int]()

    async def compute() -> None:
        computed.append(1)
        await anyio.wait_all_tasks_blocked()

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(flights.get, "key", compute)
    assert computed == [1]
