"""Services with a deadline: no request uses time that others need."""

import re

import anyio
import pytest

from apass import PassContext, function_pass
from apass.errors import BudgetExceededError
from apass.external import Backoff, Policy, Rate, Service
from tests.external.script import Script, forever

pytestmark = pytest.mark.anyio

Module = dict[str, int]
DEADLINES = (0.3, 3, 30)
"""Deadlines in seconds in which a request can start: first for a fast machine."""


async def test_request_ends_with_the_deadline() -> None:
    script = Script(forever)
    service = Service(script.answer, Policy(timeout=3600, attempts=5), name="model")
    for seconds in DEADLINES:
        async with PassContext(deadline=seconds):
            with pytest.raises(
                BudgetExceededError, match=rf"^the request to model ran out of the budget of {seconds} s;"
            ):
                await service.ask(1)
            with pytest.raises(BudgetExceededError, match="ran out of the budget"):
                await service.ask(2)
        if script.requests:
            break
    assert script.requests == [1]


async def test_queueing_and_backoff_end_with_the_deadline() -> None:
    service = Service(Script(OSError("a")).answer, Policy(attempts=9, backoff=Backoff(initial=60, maximum=60)))
    limited = Service(Script("yes").answer, Policy(rate=Rate(questions=1, seconds=60)))
    await limited.ask(1)
    for limited_service in (service, limited):
        async with PassContext(deadline=0.02):
            with pytest.raises(BudgetExceededError):
                await limited_service.ask(1)


async def test_request_is_limited_to_its_fair_share() -> None:
    service = Service(Script(forever, "yes").answer, Policy(concurrency=1), name="model")
    # With this many requests to come, a share is short and the remaining time is long.
    async with PassContext(deadline=60):
        before = PassContext.time_left()
        with pytest.raises(BudgetExceededError) as caught:
            await service.ask(0, to_come=599)
        match = re.match(
            "the request to model took longer than its fair share, (.*) s, of the budget", str(caught.value)
        )
        assert match is not None
        # The share is 1/600 of the time left at the start, printed with three digits.
        assert PassContext.time_left() < 600 * float(match[1]) <= before * 1.0006
        assert PassContext.time_left() > 30
        # No request follows, so this one may use all of the remaining time.
        assert await service.ask(1, to_come=0) == "yes"


async def test_fair_share_counts_rounds_of_queued_requests() -> None:
    parts: list[float] = []

    async def answer(question: int) -> None:
        share = anyio.current_effective_deadline() - anyio.current_time()
        parts.append(PassContext.time_left() / share)
        await anyio.wait_all_tasks_blocked()

    service = Service(answer, Policy(concurrency=2, timeout=None))
    # The deadline is so long that the time that passes in the test does not matter.
    async with PassContext(deadline=1e6), anyio.create_task_group() as group:
        for question in range(8):
            group.start_soon(service.ask, question)
    # Two concurrent requests make four rounds.
    assert [round(part) for part in parts] == [4, 4, 3, 3, 2, 2, 1, 1]


@pytest.mark.slow
async def test_fair_share_counts_functions_not_yet_started() -> None:
    """Some requests are never answered, but all others are.

    None of them uses up the whole deadline.
    """
    # With few unanswered requests and many others, the test takes a second and leaves time for slow machines.
    unanswered = range(5, 505, 50)

    async def answer(question: int) -> int:
        if question in unanswered:
            await anyio.sleep_forever()
        return -question

    service = Service(answer, Policy(concurrency=2))

    @function_pass(opt_level=0, on_error="keep")
    async def Ask(func: int, mod: Module, ctx: PassContext) -> int:
        return await service.ask(func)

    async with PassContext(deadline=60, max_concurrency=1) as ctx:
        result = await Ask({f"f{index}": index for index in range(1, 1001)})
    assert [value for value in result.values() if value > 0] == list(unanswered)
    assert len(ctx.diag_ctx.diagnostics) == 10
