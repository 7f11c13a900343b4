"""Parts of a service: circuits, hedges, rates and slots."""

from itertools import count
from typing import Any

import anyio
import pytest
from stamina.instrumentation import get_on_retry_hooks, set_on_retry_hooks

from apass import PassContext, function_pass
from apass.errors import BudgetExceededError, CircuitOpenError
from apass.external import Breaker, Policy, Rate, Service, ServiceCounts
from apass.external.circuit_breaker import Circuit
from apass.external.hedging import first_answer
from apass.external.policy import Backoff
from apass.external.rate_limiter import RateLimiter
from tests.external.clock import Clock
from tests.external.script import Script, forever

pytestmark = pytest.mark.anyio

AT_ONCE = Backoff(initial=0, maximum=0, jitter=0)
DOWN = OSError("down")


def open_circuit(rest: float = 30.0) -> Circuit:
    """Return a circuit that has just opened."""
    circuit = Circuit("model", Breaker(failures=1, rest=rest))
    circuit.enter()
    circuit.failed(DOWN)
    return circuit


def test_only_successive_failures_open_a_circuit() -> None:
    circuit = Circuit("model", Breaker(failures=2))
    for _ in range(3):
        circuit.failed(DOWN)
        circuit.answered()
    assert circuit.state == "closed"


def test_answered_trial_closes_the_circuit(clock: Clock) -> None:
    circuit = open_circuit()
    states = [circuit.state]
    clock.now = 30.0
    states.append(circuit.state)
    circuit.enter()
    circuit.answered()
    states.append(circuit.state)
    assert states == ["open", "half-open", "closed"]
    assert [circuit.enter(), circuit.enter()]


def test_failure_in_open_circuit_does_not_extend_rest(clock: Clock) -> None:
    circuit = open_circuit()
    clock.now = 29.0
    circuit.failed(DOWN)
    clock.now = 30.0
    assert circuit.state == "half-open"


def test_cancelled_earlier_request_does_not_end_the_trial(clock: Clock) -> None:
    circuit = Circuit("model", Breaker(failures=1))
    early, _ = circuit.enter(), circuit.enter()
    circuit.failed(DOWN)
    clock.now = 30.0
    circuit.enter()
    circuit.abandon(early)
    with pytest.raises(CircuitOpenError):
        circuit.enter()


async def test_first_of_two_simultaneous_answers_is_returned() -> None:
    go, order = anyio.Event(), list[str]()

    async def answer(name: str) -> str:
        await go.wait()
        order.append(name)
        return name

    async def release() -> None:
        await anyio.wait_all_tasks_blocked()
        go.set()

    async with anyio.create_task_group() as group:
        group.start_soon(release)
        assert await first_answer(lambda: answer("first"), lambda: answer("second"), 0) == order[0]


async def test_fast_request_is_not_hedged() -> None:
    go = anyio.Event()
    service = Service(Script(go.wait).answer, Policy(hedge_after=3600))
    async with anyio.create_task_group() as group:
        group.start_soon(service.ask, 1)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert service.counts == ServiceCounts(asked=1, answered=1, attempts=1)


@pytest.mark.usefixtures("idle_clock")
async def test_hedge_releases_its_slot() -> None:
    script = Script(forever, "a", forever, "b", forever, "c")
    service = Service(script.answer, Policy(hedge_after=0.001, concurrency=2))
    with anyio.fail_after(60):
        assert [await service.ask(index) for index in range(3)] == ["a", "b", "c"]


@pytest.mark.usefixtures("idle_clock")
async def test_hedge_consumes_the_rate() -> None:
    async def slow() -> str:
        await anyio.sleep(0.05)
        return "slow"

    script = Script(slow, "never asked")
    service = Service(script.answer, Policy(hedge_after=0.001, rate=Rate(questions=1, seconds=3600)))
    assert (await service.ask(1), script.requests) == ("slow", [1])


async def test_take_nowait_permits_a_burst() -> None:
    limiter = RateLimiter(Rate(questions=1, seconds=60, burst=3))
    await limiter.take()
    assert [limiter.take_nowait() for _ in range(4)] == [True, True, False, False]


class StopError(BaseException):
    """An exception that is not an Exception."""


@pytest.mark.parametrize(
    "error", [BudgetExceededError("no time"), CircuitOpenError("another circuit is open"), StopError("now")]
)
async def test_final_errors_are_never_retried(error: BaseException) -> None:
    requests = count()

    async def answer(question: int) -> str:
        if next(requests):
            return "never asked"
        raise error

    with pytest.raises(type(error)):
        await Service(answer, Policy(attempts=2, backoff=AT_ONCE, retry_on=lambda _: True)).ask(1)
    assert next(requests) == 1


async def test_request_fails_at_once_when_circuit_is_open() -> None:
    script = Script(DOWN, forever)
    service = Service(script.answer, Policy(concurrency=1, breaker=Breaker(failures=1, rest=0.01)))
    with pytest.raises(OSError, match="down"):
        await service.ask(1)
    await anyio.sleep(0.02)
    async with anyio.create_task_group() as group:
        group.start_soon(service.ask, 2)  # the trial, which holds the only slot
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60), pytest.raises(CircuitOpenError):
            await service.ask(3)
        group.cancel_scope.cancel()


async def test_rejected_request_resets_the_failure_count() -> None:
    script = Script(DOWN, ValueError("bad"), DOWN, ValueError("bad"), "yes")
    service = Service(script.answer, Policy(breaker=Breaker(failures=2)))
    for _ in range(4):
        with pytest.raises((ValueError, OSError)):
            await service.ask(1)
    assert await service.ask(1) == "yes"


async def test_service_may_call_itself() -> None:
    async def factorial(number: int) -> int:
        return number * await service.ask(number - 1) if number else 1

    service: Service[int, Any] = Service(factorial, Policy(concurrency=5))
    assert await service.ask(4) == 24


async def test_delays_between_attempts_follow_the_policy() -> None:
    waits: list[float] = []
    before = get_on_retry_hooks()
    set_on_retry_hooks([lambda details: waits.append(details.wait_for)])
    try:
        for backoff in (Backoff(initial=0.001, maximum=0.003, jitter=0), Backoff(initial=0, maximum=0.01, jitter=0.01)):
            with pytest.raises(OSError, match="down"):
                await Service(Script(DOWN).answer, Policy(attempts=4, backoff=backoff)).ask(1)
    finally:
        set_on_retry_hooks(before)
    assert waits[:3] == [0.001, 0.002, 0.003]
    # Jitter is random, but it must be added.
    assert len(waits) == 6
    assert sum(waits[3:]) > 0


async def test_concurrent_bodies_share_a_round_without_concurrency_limit() -> None:
    parts: list[float] = []

    async def answer(question: int) -> int:
        share = anyio.current_effective_deadline() - anyio.current_time()
        parts.append(PassContext.time_left() / share)
        await anyio.wait_all_tasks_blocked()
        return question

    service = Service(answer, Policy(timeout=None))

    @function_pass(opt_level=0)
    async def Ask(func: int, mod: dict[str, int], ctx: PassContext) -> int:
        return await service.ask(func)

    # The caller runs a body beside those that `max_concurrency` permits. The deadline is so long that passing time
    # does not matter.
    async with PassContext(deadline=1e6, max_concurrency=1):
        await Ask({f"f{index}": index for index in range(6)})
    assert [round(part) for part in parts] == [3, 3, 2, 2, 1, 1]


@pytest.mark.usefixtures("idle_clock")
@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": Rate(questions=1, seconds=4)}], ids=["slots", "rate"])
async def test_timeout_does_not_count_queues(limit: Any) -> None:
    async def slow(question: int) -> int:
        await anyio.sleep(4)
        return -question

    service = Service(slow, Policy(**limit))

    @function_pass(opt_level=0, timeout=5)
    async def Ask(func: int, mod: dict[str, int], ctx: PassContext) -> int:
        return await service.ask(func)

    assert await Ask({"f": 1, "g": 2, "h": 3}) == {"f": -1, "g": -2, "h": -3}
    assert anyio.current_time() == pytest.approx(12)
