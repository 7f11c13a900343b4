"""`ThreadBatches`: concurrent callers share calls in worker threads."""

import asyncio
from collections.abc import Sequence
from threading import Event

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass.concurrency.thread_batches import ThreadBatches

pytestmark = pytest.mark.anyio


class Doubling:
    """A handler that records its batches, and waits until `may_end` is set."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.batches: list[list[int]] = []
        self.may_end = Event()
        self.has_started = Event()
        self.error = error

    def __call__(self, items: Sequence[int]) -> Sequence[int | Exception]:
        """Double the items; negative ones have errors."""
        self.batches.append([*items])
        self.has_started.set()
        assert self.may_end.wait(60)
        if self.error is not None and len(items) > 1:
            raise self.error
        return [2 * item if item >= 0 else ValueError(item) for item in items]

    async def first_started(self) -> None:
        """Return when the first batch runs and no task of the loop can go on."""
        while not self.has_started.is_set():
            await checkpoint()
        await anyio.wait_all_tasks_blocked()


async def run_all(handler: Doubling, batches: ThreadBatches[int, int], items: Sequence[int]) -> dict[int, object]:
    """Run the first item, then the others meanwhile; return results or errors."""
    results: dict[int, object] = {}

    async def run(item: int) -> None:
        try:
            results[item] = await batches.run(item)
        except Exception as error:
            results[item] = repr(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run, items[0])
        await handler.first_started()
        for item in items[1:]:
            group.start_soon(run, item)
        await anyio.wait_all_tasks_blocked()
        handler.may_end.set()
    return results


async def test_later_callers_share_a_batch() -> None:
    handler = Doubling()
    results = await run_all(handler, ThreadBatches(handler), [1, 2, 3, 4])
    assert results == {1: 2, 2: 4, 3: 6, 4: 8}
    assert [sorted(batch) for batch in handler.batches] == [[1], [2, 3, 4]]


async def test_batches_have_a_maximum_size() -> None:
    handler = Doubling()
    results = await run_all(handler, ThreadBatches(handler, size=2), range(6))
    assert results == {item: 2 * item for item in range(6)}
    assert [len(batch) for batch in handler.batches] == [1, 2, 2, 1]


async def test_several_batches_run_at_once() -> None:
    handler = Doubling()
    batches = ThreadBatches(handler, threads=3)
    async with anyio.create_task_group() as group:
        for item in range(5):
            group.start_soon(batches.run, item)
        while len(handler.batches) < 3:
            await checkpoint()
        await anyio.wait_all_tasks_blocked()
        assert [len(batch) for batch in handler.batches] == [1, 1, 1]
        handler.may_end.set()
    assert sorted(item for batch in handler.batches for item in batch) == [0, 1, 2, 3, 4]


async def test_error_of_an_item_reaches_its_caller() -> None:
    handler = Doubling()
    results = await run_all(handler, ThreadBatches(handler), [1, -2, 3])
    assert results == {1: 2, -2: "ValueError(-2)", 3: 6}


async def test_error_of_the_handler_reaches_every_caller() -> None:
    handler = Doubling(error=OSError("no disk"))
    results = await run_all(handler, ThreadBatches(handler), [1, 2, 3])
    assert results == {1: 2, 2: "OSError('no disk')", 3: "OSError('no disk')"}


@pytest.mark.parametrize("cancelled", [1, 2, 3])
async def test_cancelled_caller_does_not_affect_others(cancelled: int) -> None:
    handler = Doubling()
    batches: ThreadBatches[int, int] = ThreadBatches(handler)
    results: dict[int, int] = {}
    scopes = {item: anyio.CancelScope() for item in (1, 2, 3)}

    async def run(item: int) -> None:
        with scopes[item]:
            results[item] = await batches.run(item)

    async with anyio.create_task_group() as group:
        group.start_soon(run, 1)
        await handler.first_started()
        for item in (2, 3):
            group.start_soon(run, item)
            await anyio.wait_all_tasks_blocked()
        scopes[cancelled].cancel()
        await anyio.wait_all_tasks_blocked()
        handler.may_end.set()
    assert {item: results[item] for item in {1, 2, 3} - {cancelled}} == {
        item: 2 * item for item in {1, 2, 3} - {cancelled}
    }
    # A queued item is removed; a running one ends.
    assert handler.batches == ([[1], [2, 3]] if cancelled == 1 else [[1], [5 - cancelled]])
    assert await batches.run(7) == 14


async def test_cancelled_caller_waits_for_its_thread() -> None:
    handler = Doubling()
    batches: ThreadBatches[int, int] = ThreadBatches(handler)
    ended: list[bool] = []

    async def run(scope: anyio.CancelScope) -> None:
        with scope:
            await batches.run(1)
        ended.append(handler.may_end.is_set())

    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()
        group.start_soon(run, scope)
        await handler.first_started()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        handler.may_end.set()
    assert ended == [True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_natively_cancelled_leader_wakes_other_callers() -> None:
    handler = Doubling()
    batches: ThreadBatches[int, int] = ThreadBatches(handler)
    leader = asyncio.create_task(batches.run(1))
    await handler.first_started()
    followers = [asyncio.create_task(batches.run(item)) for item in (2, 3)]
    await anyio.wait_all_tasks_blocked()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    handler.may_end.set()
    assert await asyncio.gather(*followers) == [4, 6]
    assert await batches.run(4) == 8


def test_queue_does_not_outlive_its_loop() -> None:
    handler = Doubling()
    batches: ThreadBatches[int, int] = ThreadBatches(handler)

    async def abandon() -> None:
        task = asyncio.create_task(batches.run(1))
        await handler.first_started()
        task.cancel()
        handler.may_end.set()

    async def run() -> int:
        return await batches.run(2)

    anyio.run(abandon)
    assert anyio.run(run) == 4
