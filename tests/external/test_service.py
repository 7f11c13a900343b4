"""Services: every limit of a policy and a deadline, with real waits."""

import pickle
from itertools import pairwise
from time import monotonic
from typing import Any

import anyio
import pytest

from apass import PassContext, function_pass
from apass.errors import CircuitOpenError, HelperError, ServiceTimeoutError
from apass.external import Backoff, Breaker, Policy, Rate, Service, ServiceCounts
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


async def test_ask_returns_the_answer() -> None:
    service = Service(Script("yes").answer)
    assert await service.ask(1) == "yes"
    assert service.counts == ServiceCounts(asked=1, answered=1, attempts=1)


async def test_attempt_is_cancelled_at_its_timeout() -> None:
    script = Script(forever)
    with pytest.raises(ServiceTimeoutError, match=r"^model did not answer within 0\.02 s$"):
        await Service(script.answer, Policy(timeout=0.02), name="model").ask(1)
    assert script.running == 0


async def test_transient_errors_are_retried() -> None:
    script = Script(OSError("a"), ConnectionResetError("b"), HelperError("c"), "yes")
    assert await Service(script.answer, Policy(attempts=4, backoff=AT_ONCE)).ask(1) == "yes"
    assert script.requests == [1, 1, 1, 1]


async def test_timeout_is_retried() -> None:
    script = Script(forever, "yes")
    # There are many attempts because a slow machine may miss the timeout of the second too.
    assert await Service(script.answer, Policy(timeout=0.3, attempts=100, backoff=AT_ONCE)).ask(1) == "yes"


async def test_error_of_last_attempt_is_raised_unchanged() -> None:
    last = OSError("third")
    script = Script(OSError("first"), OSError("second"), last, "never asked")
    with pytest.raises(OSError, match="third") as caught:
        await Service(script.answer, Policy(attempts=3, backoff=AT_ONCE)).ask(1)
    assert caught.value is last
    assert len(script.requests) == 3


async def test_permanent_error_is_not_retried() -> None:
    script = Script(ValueError("bad request"), "never asked")
    with pytest.raises(ValueError, match="bad request"):
        await Service(script.answer, Policy(attempts=3, backoff=AT_ONCE)).ask(1)
    assert len(script.requests) == 1


def is_lookup_error(error: Exception) -> bool:
    return isinstance(error, LookupError)


def at_once(error: Exception) -> float:
    return 0.0


@pytest.mark.parametrize("retry_on", [LookupError, (LookupError, EOFError), is_lookup_error, at_once])
async def test_policy_defines_transient_errors(retry_on: RetryOn) -> None:
    script = Script(KeyError("a"), "yes")
    policy = Policy(attempts=2, backoff=AT_ONCE, retry_on=retry_on)
    assert await Service(script.answer, policy).ask(1) == "yes"


async def test_request_is_not_retried_when_delay_exceeds_maximum() -> None:
    script = Script(OSError("busy"), "never asked")
    policy = Policy(attempts=2, backoff=Backoff(maximum=1), retry_on=lambda _: 3600.0)
    with pytest.raises(OSError, match="busy"):
        await Service(script.answer, policy).ask(1)


async def test_delays_between_attempts_double() -> None:
    times: list[float] = []

    async def fail(request: int) -> int:
        times.append(monotonic())
        raise OSError("down")

    policy = Policy(attempts=4, backoff=Backoff(initial=0.02, jitter=0))
    with pytest.raises(OSError, match="down"):
        await Service(fail, policy).ask(1)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert [gap >= 0.02 * 2**n for n, gap in enumerate(gaps)] == [True] * 3


@pytest.mark.parametrize("concurrency", [1, 3, None])
async def test_concurrency_limits_attempts_in_flight(concurrency: int | None) -> None:
    go = anyio.Event()
    script = Script(go.wait)
    service = Service(script.answer, Policy(concurrency=concurrency))
    in_flight = concurrency or 10
    async with anyio.create_task_group() as group:
        for index in range(10):
            group.start_soon(service.ask, index)
        await anyio.wait_all_tasks_blocked()
        assert service.counts == ServiceCounts(
            asked=10, attempts=in_flight, in_flight=in_flight, waiting=10 - in_flight
        )
        go.set()
    assert script.most == in_flight
    assert service.counts == ServiceCounts(asked=10, answered=10, attempts=10)


async def test_cancelled_requests_release_their_slots() -> None:
    script = Script(forever)
    service = Service(script.answer, Policy(concurrency=2, attempts=3, hedge_after=0.001, rate=Rate(questions=1e6)))
    with anyio.move_on_after(0.05):
        await ask_all(service, 10)
    assert (service.counts.in_flight, service.counts.waiting, script.running) == (0, 0, 0)
    script.entries = ["yes"]
    assert await service.ask(1) == "yes"


async def test_timeout_does_not_include_queueing() -> None:
    started, ended = list[float](), list[float]()

    async def answer(request: int) -> int:
        started.append(anyio.current_effective_deadline() - 3600)
        await anyio.wait_all_tasks_blocked()
        ended.append(anyio.current_time())
        return request

    service = Service(answer, Policy(timeout=3600, concurrency=1))
    await ask_all(service, 9)
    assert service.counts.answered == 9
    # All were queued from the start, but each timeout starts at the end of the previous request.
    assert [at >= before for before, at in zip(ended[:-1], started[1:], strict=True)] == [True] * 8


async def test_requests_are_spread_by_the_rate() -> None:
    times: list[float] = []

    async def note(request: int) -> None:
        times.append(anyio.current_time())

    start = anyio.current_time()
    await ask_all(Service(note, Policy(rate=Rate(questions=100))), 7)
    # The n-th request starts at the earliest after n intervals.
    assert [at - start >= n * 0.0099 for n, at in enumerate(times)] == [True] * 7


async def test_burst_is_sent_at_once() -> None:
    script = Script("yes")
    async with anyio.create_task_group() as group:
        group.start_soon(ask_all, Service(script.answer, Policy(rate=Rate(questions=1, seconds=60, burst=3))), 9)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert len(script.requests) == 3


async def test_cancelled_waiter_does_not_consume_rate() -> None:
    script = Script("yes")
    service = Service(script.answer, Policy(rate=Rate(questions=2)))
    await service.ask(0)
    async with anyio.create_task_group() as group:
        group.start_soon(ask_all, service, 500)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    # On a slow machine, the first of them may have been permitted.
    through = list(script.requests)
    assert len(through) < 100
    # If they had consumed the rate, this would take more than 200 s.
    with anyio.fail_after(60):
        await service.ask(1)
    assert script.requests == [*through, 1]


async def test_circuit_opens_after_failures_and_permits_a_trial(clock: Clock) -> None:
    script = Script(OSError("down"))
    service = Service(script.answer, Policy(breaker=Breaker(failures=3, rest=0.4)), name="model")
    for _ in range(3):
        with pytest.raises(OSError, match="down"):
            await service.ask(1)
    with pytest.raises(CircuitOpenError, match=r"^model failed 3 times in succession and rests for 0\.4 s; .* down$"):
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


async def test_cancelled_trial_permits_another_trial() -> None:
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


async def test_permanent_errors_do_not_open_the_circuit() -> None:
    script = Script(ValueError("bad"), OSError("down"), ValueError("bad"), OSError("down"))
    service = Service(script.answer, Policy(breaker=Breaker(failures=2)))
    for _ in range(3):
        with pytest.raises((ValueError, OSError)):
            await service.ask(1)
    assert len(script.requests) == 3


async def test_queued_requests_fail_when_the_circuit_opens() -> None:
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


@pytest.mark.usefixtures("idle_clock")
async def test_slow_request_is_hedged() -> None:
    script = Script(forever, "second")
    service = Service(script.answer, Policy(hedge_after=0.01))
    assert await service.ask(1) == "second"
    assert (script.requests, script.running) == ([1, 1], 0)
    assert service.counts == ServiceCounts(asked=1, answered=1, attempts=2, hedges=1)


@pytest.mark.usefixtures("idle_clock")
async def test_hedge_requires_a_free_slot() -> None:
    async def slow() -> str:
        await anyio.sleep(0.05)
        return "slow"

    script = Script(slow, "second")
    service = Service(script.answer, Policy(hedge_after=0.01, concurrency=1))
    assert await service.ask(1) == "slow"
    assert script.most == 1


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (OSError("at once"), "never asked", "at once"),
        ("slow error", forever, None),
        ("slow error", OSError("second"), "second"),
        ("slow answer", OSError("second"), "slow"),
        ("slow answer", forever, "slow"),
        (forever, "second", "second"),
    ],
)
async def test_hedged_request_fails_only_when_both_attempts_fail(
    first: Entry, second: Entry, expected: str | None
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
    # An immediate error must not be later than a hedge, even on a slow machine.
    hedge_after = 3600 if expected == "at once" else 0.005
    service = Service(script.answer, Policy(hedge_after=hedge_after, timeout=0.1 if expected is None else 60))
    try:
        result = str(await service.ask(1))
    except ServiceTimeoutError:
        result = None
    except OSError as error:
        result = str(error)
    assert (result, script.running, service.counts.in_flight) == (expected, 0, 0)


async def test_on_error_function_replaces_failed_requests() -> None:
    service = Service(Script(OSError("down")).answer, Policy(attempts=2, backoff=AT_ONCE))

    async def ask(func: int, mod: Module, ctx: PassContext) -> int:
        await service.ask(func)
        return func

    def guess(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
        return func * 100

    assert await function_pass(ask, opt_level=0, on_error=guess)({"f": 1, "g": 2}) == {"f": 100, "g": 200}


def test_service_works_in_successive_event_loops() -> None:
    script = Script("yes")
    service = Service(script.answer, Policy(concurrency=2, rate=Rate(questions=1000)))
    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(ask_all, service, 5, backend=backend)
    assert len(script.requests) == 15


async def test_service_can_be_sent_to_another_process() -> None:
    service = Service(anyio.sleep, Policy(concurrency=1), name="sleeper", types=[Rate])
    await service.ask(0)
    same = pickle.loads(pickle.dumps(service))
    assert (same.name, same.policy, same.counts.asked) == ("sleeper", service.policy, 0)
    assert same.codec.loads(service.codec.dumps(Rate(questions=1))) == Rate(questions=1)
    await same.ask(0)


async def test_service_may_call_another_service() -> None:
    inner = Service(Script("20").answer, Policy(concurrency=1))

    async def ask_inner(request: int) -> str:
        return await inner.ask(request)

    assert await Service(ask_inner, Policy(concurrency=1)).ask(1) == "20"
