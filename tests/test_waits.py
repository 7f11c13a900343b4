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


@pytest.mark.anyio
async def test_where_nobody_listens_it_does_nothing() -> None:
    assert await Ask({"f": 1}) == {"f": 1}
