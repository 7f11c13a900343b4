"""Services: every limit of a policy and of the budget, on real waits, on both event loops."""

from itertools import pairwise
from time import monotonic
from typing import Any

import anyio
import pytest

from apass import (
    CircuitOpenError,
    HelperError,
    PassContext,
    ServiceTimeoutError,
    function_pass,
)
from apass.external import Backoff, Breaker, Counts, Policy, Rate, Service
from apass.external.policy import RetryOn
from tests.external.clock import Clock
from tests.external.script import Entry, Script, forever

pytestmark = pytest.mark.anyio

AT_ONCE = Backoff(initial=0, maximum=0, jitter=0)
Module = dict[str, int]


async def ask_all(service: Service[int, Any], count: int) -> None:
    async with anyio.create_task_group() as group:
        for index in range(count):
            group.start_soon(service.ask, index)


async def test_an_answer_comes_through() -> None:
    service = Service(Script("yes").answer)
    assert await service.ask(1) == "yes"
    assert service.counts == Counts(asked=1, answered=1, attempts=1)


async def test_an_attempt_that_takes_too_long_is_cut_off() -> None:
    script = Script(forever)
    with pytest.raises(ServiceTimeoutError, match=r"^model gave no answer within 0\.02 s$"):
        await Service(script.answer, Policy(timeout=0.02), name="model").ask(1)
    assert script.at_work == 0


async def test_errors_that_pass_are_retried() -> None:
    script = Script(OSError("a"), ConnectionResetError("b"), HelperError("c"), "yes")
    assert await Service(script.answer, Policy(attempts=4, backoff=AT_ONCE)).ask(1) == "yes"
    assert script.requests == [1, 1, 1, 1]


async def test_a_timeout_is_retried() -> None:
    script = Script(forever, "yes")
    # More attempts than two, as a machine that stalls may have no time for the second.
    assert await Service(script.answer, Policy(timeout=0.3, attempts=100, backoff=AT_ONCE)).ask(1) == "yes"


async def test_after_the_last_attempt_its_error_comes_out_as_it_is() -> None:
    last = OSError("third")
    script = Script(OSError("first"), OSError("second"), last, "never asked")
    with pytest.raises(OSError, match="third") as caught:
        await Service(script.answer, Policy(attempts=3, backoff=AT_ONCE)).ask(1)
    assert caught.value is last
    assert len(script.requests) == 3


async def test_an_error_that_does_not_pass_is_not_retried() -> None:
    script = Script(ValueError("bad question"), "never asked")
    with pytest.raises(ValueError, match="bad question"):
        await Service(script.answer, Policy(attempts=3, backoff=AT_ONCE)).ask(1)
    assert len(script.requests) == 1


def is_lookup_error(error: Exception) -> bool:
    return isinstance(error, LookupError)


def at_once(error: Exception) -> float:
    return 0.0


@pytest.mark.parametrize("retry_on", [LookupError, (LookupError, EOFError), is_lookup_error, at_once])
async def test_the_policy_may_say_what_passes(retry_on: RetryOn) -> None:
    script = Script(KeyError("a"), "yes")
    policy = Policy(attempts=2, backoff=AT_ONCE, retry_on=retry_on)
    assert await Service(script.answer, policy).ask(1) == "yes"


async def test_who_must_wait_longer_than_the_back_off_allows_does_not_ask_again() -> None:
    script = Script(OSError("busy"), "never asked")
    policy = Policy(attempts=2, backoff=Backoff(maximum=1), retry_on=lambda _: 3600.0)
    with pytest.raises(OSError, match="busy"):
        await Service(script.answer, policy).ask(1)


async def test_attempts_wait_longer_and_longer() -> None:
    times: list[float] = []

    async def fail(question: int) -> int:
        times.append(monotonic())
        raise OSError("down")

    policy = Policy(attempts=4, backoff=Backoff(initial=0.02, jitter=0))
    with pytest.raises(OSError, match="down"):
        await Service(fail, policy).ask(1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert [gap >= 0.02 * 2**n for n, gap in enumerate(gaps)] == [True] * 3


@pytest.mark.parametrize("concurrency", [1, 3, None])
async def test_no_more_than_the_limit_are_in_flight(concurrency: int | None) -> None:
    go = anyio.Event()
    script = Script(go.wait)
    service = Service(script.answer, Policy(concurrency=concurrency))
    in_flight = concurrency or 10
    async with anyio.create_task_group() as group:
        for index in range(10):
            group.start_soon(service.ask, index)
        await anyio.wait_all_tasks_blocked()
        assert service.counts == Counts(asked=10, attempts=in_flight, in_flight=in_flight, waiting=10 - in_flight)
        go.set()
    assert script.most == in_flight
    assert service.counts == Counts(asked=10, answered=10, attempts=10)


async def test_those_who_are_cancelled_give_their_places_back() -> None:
    script = Script(forever)
    service = Service(script.answer, Policy(concurrency=2, attempts=3, hedge_after=0.001, rate=Rate(questions=1e6)))
    with anyio.move_on_after(0.05):
        await ask_all(service, 10)
    assert (service.counts.in_flight, service.counts.waiting, script.at_work) == (0, 0, 0)
    script.entries = ["yes"]
    assert await service.ask(1) == "yes"


async def test_the_time_in_the_line_does_not_count_for_the_timeout() -> None:
    begun, ended = list[float](), list[float]()

    async def answer(question: int) -> int:
        begun.append(anyio.current_effective_deadline() - 3600)
        await anyio.wait_all_tasks_blocked()
        ended.append(anyio.current_time())
        return question

    service = Service(answer, Policy(timeout=3600, concurrency=1))
    await ask_all(service, 9)
    assert service.counts.answered == 9
    # All stood in line from the first one's time on, but the time of each is counted from the end of the one before.
    assert [at >= before for before, at in zip(ended[:-1], begun[1:], strict=True)] == [True] * 8


async def test_questions_are_spread_as_the_rate_says() -> None:
    times: list[float] = []

    async def note(question: int) -> None:
        times.append(anyio.current_time())

    start = anyio.current_time()
    await ask_all(Service(note, Policy(rate=Rate(questions=100))), 7)
    # The n-th comes n intervals later at the soonest.
    assert [at - start >= n * 0.0099 for n, at in enumerate(times)] == [True] * 7


async def test_a_burst_goes_through_at_once() -> None:
    script = Script("yes")
    async with anyio.create_task_group() as group:
        group.start_soon(ask_all, Service(script.answer, Policy(rate=Rate(questions=1, seconds=60, burst=3))), 9)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert len(script.requests) == 3


async def test_who_is_cancelled_in_line_for_the_rate_uses_nothing_up() -> None:
    script = Script("yes")
    service = Service(script.answer, Policy(rate=Rate(questions=2)))
    await service.ask(0)
    async with anyio.create_task_group() as group:
        group.start_soon(ask_all, service, 500)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    # On a machine that stalled, it was the turn of the first of them.
    through = list(script.requests)
    assert len(through) < 100
    # Had they used up theirs, it would be more than 200 s.
    with anyio.fail_after(60):
        await service.ask(1)
    assert script.requests == [*through, 1]


async def test_a_helper_that_fails_again_and_again_is_left_in_peace_and_then_tried_once(clock: Clock) -> None:
    script = Script(OSError("down"))
    service = Service(script.answer, Policy(breaker=Breaker(failures=3, rest=0.4)), name="model")
    for _ in range(3):
        with pytest.raises(OSError, match="down"):
            await service.ask(1)
    with pytest.raises(CircuitOpenError, match=r"^model failed 3 times in a row and rests for 0\.4 s; .* down$"):
        await service.ask(2)
    clock.now = 0.4
    with pytest.raises(OSError, match="down"):
        await service.ask(3)  # the trial
    with pytest.raises(CircuitOpenError, match="model failed 4 times"):
        await service.ask(4)
    clock.now = 0.8
    script.entries = ["yes"]
    assert [await service.ask(5), await service.ask(6)] == ["yes", "yes"]
    assert script.requests == [1, 1, 1, 3, 5, 6]


async def test_only_one_question_is_the_trial_and_if_it_is_cancelled_another_may_be() -> None:
    script = Script(OSError("down"), forever, "yes")
    service = Service(script.answer, Policy(breaker=Breaker(failures=1, rest=0.01)))
    with pytest.raises(OSError, match="down"):
        await service.ask(1)
    await anyio.sleep(0.02)
    async with anyio.create_task_group() as group:
        group.start_soon(service.ask, 2)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(CircuitOpenError):
            await service.ask(3)
        group.cancel_scope.cancel()
    assert await service.ask(4) == "yes"


async def test_an_error_that_is_the_fault_of_the_question_opens_no_circuit() -> None:
    script = Script(ValueError("bad"), OSError("down"), ValueError("bad"), OSError("down"))
    service = Service(script.answer, Policy(breaker=Breaker(failures=2)))
    for _ in range(3):
        with pytest.raises((ValueError, OSError)):
            await service.ask(1)
    assert len(script.requests) == 3


async def test_questions_in_line_fail_at_once_when_the_circuit_opens() -> None:
    script = Script(OSError("down"))
    service = Service(script.answer, Policy(concurrency=1, breaker=Breaker(failures=2)))
    errors: list[type[Exception]] = []

    async def ask() -> None:
        try:
            await service.ask(1)
        except OSError as error:
            errors.append(type(error))

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(ask)
    assert errors == [OSError] * 2 + [CircuitOpenError] * 4
    assert len(script.requests) == 2


async def test_a_question_that_takes_long_is_asked_once_more() -> None:
    script = Script(forever, "second")
    service = Service(script.answer, Policy(hedge_after=0.01))
    assert await service.ask(1) == "second"
    assert (script.requests, script.at_work) == ([1, 1], 0)
    assert service.counts == Counts(asked=1, answered=1, attempts=2, hedges=1)


async def test_a_hedge_needs_a_place_of_its_own() -> None:
    async def slow() -> str:
        await anyio.sleep(0.05)
        return "slow"

    script = Script(slow, "second")
    service = Service(script.answer, Policy(hedge_after=0.01, concurrency=1))
    assert await service.ask(1) == "slow"
    assert script.most == 1


@pytest.mark.parametrize(
    ("first", "second", "comes"),
    [
        (OSError("at once"), "never asked", "at once"),
        ("slow error", forever, None),
        ("slow error", OSError("second"), "second"),
        ("slow answer", OSError("second"), "slow"),
        ("slow answer", forever, "slow"),
        (forever, "second", "second"),
    ],
)
async def test_of_two_requests_the_first_answer_counts_and_an_error_only_if_both_fail(
    first: Entry, second: Entry, comes: str | None
) -> None:
    second_came = anyio.Event()

    async def answer_second() -> object:
        second_came.set()
        return second if isinstance(second, str | Exception) else await second()

    async def slow() -> object:
        await second_came.wait()
        await anyio.wait_all_tasks_blocked()
        return OSError("slow") if first == "slow error" else "slow"

    script = Script(slow if isinstance(first, str) else first, answer_second)
    # What comes at once must not be as late as a hedge, however slow the machine is.
    hedge_after = 3600 if comes == "at once" else 0.005
    service = Service(script.answer, Policy(hedge_after=hedge_after, timeout=0.1 if comes is None else 60))
    try:
        result = str(await service.ask(1))
    except ServiceTimeoutError:
        result = None
    except OSError as error:
        result = str(error)
    assert (result, script.at_work, service.counts.in_flight) == (comes, 0, 0)


async def test_a_fallback_answers_for_a_helper_that_does_not() -> None:
    service = Service(Script(OSError("down")).answer, Policy(attempts=2, backoff=AT_ONCE))

    async def ask(func: int, mod: Module, ctx: PassContext) -> int:
        await service.ask(func)
        return func

    def guess(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        return func * 100

    assert await function_pass(ask, opt_level=0, on_error=guess)({"f": 1, "g": 2}) == {"f": 100, "g": 200}


def test_one_service_serves_one_event_loop_after_the_other() -> None:
    script = Script("yes")
    service = Service(script.answer, Policy(concurrency=2, rate=Rate(questions=1000)))
    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(ask_all, service, 5, backend=backend)
    assert len(script.requests) == 15


async def test_a_service_may_ask_another() -> None:
    inner = Service(Script("20").answer, Policy(concurrency=1))

    async def ask_inner(question: int) -> str:
        return await inner.ask(question)

    assert await Service(ask_inner, Policy(concurrency=1)).ask(1) == "20"
