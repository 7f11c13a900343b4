"""`waiting_for`: instruments receive the awaited resource and the waiting run."""

import anyio.lowlevel
import pytest

import apass

Module = dict[str, int]


@apass.function_pass(opt_level=0)
async def Query(func: int, mod: Module, ctx: apass.PassContext) -> int:
    with apass.waiting_for("the cost model"):
        await anyio.lowlevel.checkpoint()
        if func == 0:
            raise ValueError("no")
    return func


class WaitRecorder:
    """Records the calls of `on_wait`."""

    def __init__(self) -> None:
        self.events: list[tuple[str | None, str, bool]] = []

    def on_wait(self, run: apass.Run | None, what: str, is_over: bool) -> None:
        """Record the function, the text, and whether the wait is over."""
        self.events.append((None if run is None else run.function, what, is_over))


@pytest.mark.anyio
async def test_on_wait_reports_begin_and_end_with_function() -> None:
    recorder = WaitRecorder()
    async with apass.PassContext(instruments=[recorder], max_concurrency=1):
        with pytest.raises(ValueError, match="no"):
            await Query({"f": 0})
        with apass.waiting_for("nothing"):
            pass
    assert recorder.events == [
        ("f", "the cost model", False),
        ("f", "the cost model", True),
        (None, "nothing", False),
        (None, "nothing", True),
    ]


@apass.analysis
async def cost(func: int, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func


@apass.function_pass(opt_level=0)
async def ReadCost(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return await ctx.get(cost, func)


@apass.function_pass(opt_level=0)
def Keep(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return func


@pytest.mark.anyio
async def test_on_wait_names_analyses_and_workers() -> None:
    recorder = WaitRecorder()
    async with apass.PassContext(instruments=[recorder], executor="thread"):
        await apass.Sequential([ReadCost, Keep])({"f": 1})
    assert [event for event in recorder.events if not event[2]] == [
        ("f", "the analysis cost", False),
        ("f", "a worker thread", False),
    ]
    assert sum(is_over for *_, is_over in recorder.events) == 2


@pytest.mark.anyio
async def test_waiting_for_without_instrument_has_no_effect() -> None:
    assert await Query({"f": 1}) == {"f": 1}
