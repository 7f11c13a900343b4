"""`RunLocal`: values of the current run in one context variable."""

from contextvars import copy_context

import anyio
import pytest

from apass.concurrency.run_locals import RunLocal

depth = RunLocal("depth", 0)
name: RunLocal[str | None] = RunLocal("name", None)


def test_values_are_restored_after_the_block() -> None:
    with depth.set_to(1):
        with depth.set_to(2), name.set_to("a"):
            assert (depth.get(), name.get()) == (2, "a")
        assert (depth.get(), name.get()) == (1, None)
    with pytest.raises(ValueError, match="b"), depth.set_to(3):
        raise ValueError("b")
    assert (depth.get(), repr(depth)) == (0, "RunLocal('depth')")


def test_other_value_outlives_the_block() -> None:
    def check() -> None:
        with depth.set_to(1):
            name.set("set in the block")
        assert (depth.get(), name.get()) == (0, "set in the block")

    copy_context().run(check)
    assert name.get() is None


@pytest.mark.anyio
async def test_tasks_have_values_of_their_own() -> None:
    seen: list[tuple[int, int]] = []

    async def task(value: int) -> None:
        before = depth.get()
        with depth.set_to(value):
            await anyio.lowlevel.checkpoint()
            seen.append((before, depth.get()))

    with depth.set_to(7):
        async with anyio.create_task_group() as group:
            for value in range(3):
                group.start_soon(task, value)
        assert depth.get() == 7
    assert sorted(seen) == [(7, 0), (7, 1), (7, 2)]
    assert await anyio.to_thread.run_sync(depth.get) == 0
