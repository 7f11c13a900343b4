"""Services within a budget: no question takes what others need."""

import re

import anyio
import pytest

from apass import BudgetExceededError, PassContext, function_pass
from apass.external import Backoff, Policy, Rate, Service
from tests.external.script import Script, forever

pytestmark = pytest.mark.anyio

Module = dict[str, int]
PATIENCE = (0.3, 3, 30)
"""Seconds in which a question is begun: first on a machine that is not busy, then on one that stalls."""


async def test_no_question_gets_more_than_what_is_left_of_the_budget() -> None:
    script = Script(forever)
    service = Service(script.answer, Policy(timeout=3600, attempts=5), name="model")
    for seconds in PATIENCE:
        async with PassContext(deadline=seconds):
            with pytest.raises(
                BudgetExceededError, match=rf"^the question to model ran out of the budget of {seconds} s;"
            ):
                await service.ask(1)
            with pytest.raises(BudgetExceededError, match="ran out of the budget"):
                await service.ask(2)
        if script.requests:
            break
    assert script.requests == [1]


async def test_waits_in_line_and_between_attempts_are_within_the_budget() -> None:
    service = Service(Script(OSError("a")).answer, Policy(attempts=9, backoff=Backoff(initial=60, maximum=60)))
    limited = Service(Script("yes").answer, Policy(rate=Rate(questions=1, seconds=60)))
    await limited.ask(1)
    for one in (service, limited):
        async with PassContext(deadline=0.02):
            with pytest.raises(BudgetExceededError):
                await one.ask(1)


async def test_one_question_may_not_eat_the_budget_of_those_that_come_after_it() -> None:
    service = Service(Script(forever, "yes").answer, Policy(concurrency=1), name="model")
    # So many to come that a share is short, and what is left for them long.
    async with PassContext(deadline=60):
        before = PassContext.time_left()
        with pytest.raises(BudgetExceededError) as caught:
            await service.ask(0, to_come=599)
        found = re.match(
            "the question to model took longer than its fair share, (.*) s, of the budget", str(caught.value)
        )
        assert found is not None
        # One of six hundred parts of what was left when the question began; printed with three digits.
        assert PassContext.time_left() < 600 * float(found[1]) <= before * 1.0006
        assert PassContext.time_left() > 30
        # None is to come after this one, so it may take its time.
        assert await service.ask(1, to_come=0) == "yes"


async def test_a_fair_share_is_counted_in_rounds_of_those_in_line() -> None:
    parts: list[float] = []

    async def answer(question: int) -> None:
        share = anyio.current_effective_deadline() - anyio.current_time()
        parts.append(PassContext.time_left() / share)
        await anyio.wait_all_tasks_blocked()

    service = Service(answer, Policy(concurrency=2, timeout=None))
    # Beside so much time none that passes meanwhile counts.
    async with PassContext(deadline=1e6), anyio.create_task_group() as group:
        for question in range(8):
            group.start_soon(service.ask, question)
    # Two at a time: four rounds.
    assert [round(part) for part in parts] == [4, 4, 3, 3, 2, 2, 1, 1]


async def test_functions_whose_bodies_have_not_begun_count_for_the_fair_share() -> None:
    """Some functions' questions are never answered, and yet all others are, as none eats up the whole budget."""
    # So few, and so many after them, that they take a second, and what is left is more than any machine needs.
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
        made = await Ask({f"f{index}": index for index in range(1, 1001)})
    assert [value for value in made.values() if value > 0] == list(unanswered)
    assert len(ctx.diag_ctx.diagnostics) == 10
