"""`waiting_for`: what a pass says that it waits for is told to instruments, with the run that waits."""

import anyio.lowlevel
import pytest

import apass

Module = dict[str, int]


@apass.function_pass(opt_level=0)
async def Ask(func: int, mod: Module, ctx: apass.PassContext) -> int:
    with apass.waiting_for("the cost model"):
        await anyio.lowlevel.checkpoint()
        if func == 0:
            raise ValueError("no")
    return func


class Listen:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, str, bool]] = []

    def on_wait(self, run: apass.Run | None, what: str, is_over: bool) -> None:
        """Keep it."""
        self.told.append((None if run is None else run.function, what, is_over))


@pytest.mark.anyio
async def test_begin_and_end_are_told_with_the_function_that_waits_after_errors_too() -> None:
    listen = Listen()
    async with apass.PassContext(instruments=[listen], max_concurrency=1):
        with pytest.raises(ValueError, match="no"):
            await Ask({"f": 0})
        with apass.waiting_for("nothing"):
            pass
    assert listen.told == [
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
async def Look(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return await ctx.get(cost, func)


@apass.function_pass(opt_level=0)
def Keep(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return func


@pytest.mark.anyio
async def test_analyses_and_workers_are_named() -> None:
    listen = Listen()
    async with apass.PassContext(instruments=[listen], executor="thread"):
        await apass.Sequential([Look, Keep])({"f": 1})
    assert [told for told in listen.told if not told[2]] == [
        ("f", "the analysis cost", False),
        ("f", "a worker thread", False),
    ]
    assert sum(is_over for *_, is_over in listen.told) == 2


@pytest.mark.anyio
async def test_where_nobody_listens_it_does_nothing() -> None:
    assert await Ask({"f": 1}) == {"f": 1}
