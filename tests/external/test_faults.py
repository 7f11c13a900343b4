"""Fault injection: two thousand functions through a server with seeded faults."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import httpx
import pytest

from apass import PassContext, analysis, function_pass
from apass.errors import HelperError
from apass.external import Backoff, Policy
from apass.external.http import HttpService
from tests.external.faulty_server import Fault, FaultyServer, Plan, faulty_server

pytestmark = [pytest.mark.anyio, pytest.mark.network]

Module = dict[str, int]
LIMIT, ATTEMPTS = 8, 3
TRANSIENT: tuple[Fault, ...] = ("delay", "drop", "reset", "half", "garbage", "wrong", "busy", "500")
PATIENT = Policy(timeout=3600, attempts=ATTEMPTS, backoff=Backoff(initial=0, jitter=0.002), concurrency=LIMIT - 2)
IMPATIENT = replace(PATIENT, timeout=4, concurrency=2)
"""For requests that hang at first.

All others have no timeout, because they would be repeated.
"""


def is_bad(request: int) -> bool:
    """Return whether a failing request is itself the cause."""
    return request % 3 == 0


def seeded(seed: int, failing: frozenset[int]) -> Plan:
    """Return a plan: faults for a fifth of all attempts, and for each failing request."""

    def plan(request: Any, attempt: int) -> Fault:
        random = Random(f"{seed} {request} {attempt}")
        if request in failing:
            return "400" if is_bad(request) else random.choice(("drop", "reset", "500", "garbage"))
        if request in HANGING and attempt == 0:
            return "hang"
        # The last attempt succeeds, so that the outcome of each function is known.
        return random.choice(TRANSIENT) if attempt < ATTEMPTS - 1 and random.random() < 0.2 else "none"

    return plan


def doubler(server: FaultyServer, policy: Policy) -> HttpService[int, int]:
    """Return a service that doubles numbers, and records the started attempts."""

    def encode(request: int) -> dict[str, int]:
        server.most_started = max(server.most_started, service.counts.in_flight)
        return {"question": request}

    service = HttpService[int, int](server.url, policy, encode=encode, decode=lambda reply: int(reply["answer"]))
    return service


def module_of(functions: int) -> Module:
    """Return a module in which two functions each make the same request."""
    return {f"f{index}": index // 2 for index in range(functions)}


FAILING = frozenset(range(5, 1000, 23))
"""Requests that are never answered."""
HANGING = frozenset({200, 240})
"""Requests that hang at the first attempt."""


async def run_through(server: FaultyServer, mod: Module, on_error: Any) -> tuple[Module, PassContext]:
    """Run the pass on all functions, and assert that no requests remain."""
    patient, impatient = doubler(server, PATIENT), doubler(server, IMPATIENT)

    @analysis
    async def Double(func: int) -> int:
        return await (impatient if func in HANGING else patient).ask(func)

    async def body(func: int, mod: Module, ctx: PassContext) -> int:
        return await ctx.get(Double, func)

    pass_ = function_pass(body, opt_level=0, name="Double", on_error=on_error)
    try:
        with anyio.fail_after(60):
            # With this deadline, a fair share is longer than a hanging request even on a slow machine.
            async with patient, impatient, PassContext(deadline=9000) as ctx:
                return await pass_(mod), ctx
    finally:
        for service in (patient, impatient):
            assert (service.counts.in_flight, service.counts.waiting) == (0, 0)
        assert server.most_in_flight <= LIMIT
        # An answered request is never repeated.
        assert set(server.answers.values()) <= {1}


def fall_back(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    return -func


@pytest.mark.slow
@pytest.mark.parametrize(
    ("functions", "on_error", "factor", "level"), [(600, "keep", 1, "WARNING"), (300, fall_back, -1, "NOTE")]
)
async def test_every_function_is_optimized_or_recovered(functions: int, on_error: Any, factor: int, level: str) -> None:
    mod = module_of(functions)
    requests, failing = set(mod.values()), FAILING & set(mod.values())
    async with faulty_server(seeded(7, FAILING), delay=0.01) as server:
        result, ctx = await run_through(server, mod, on_error)
    assert result == {name: func * (factor if func in failing else 2) for name, func in mod.items()}
    diagnostics = [(diagnostic.level.name, diagnostic.function) for diagnostic in ctx.diag_ctx.diagnostics]
    assert Counter(diagnostics) == Counter((level, name) for name, func in mod.items() if func in failing)
    # All slots were used. How many the server sees at once depends on its speed.
    assert server.most_started == PATIENT.concurrency
    # A request is repeated only after a transient error. A failure is not cached, so a failing request may be made
    # twice.
    assert server.answers == Counter(requests - failing)
    assert max(server.requests[request] for request in requests - failing) == ATTEMPTS
    for request in failing:
        attempts = 1 if is_bad(request) else ATTEMPTS
        assert server.requests[request] in (attempts, 2 * attempts)
    assert set(server.faults) == {*TRANSIENT, "none", "400"} | ({"hang"} if requests & HANGING else set())


async def test_first_failure_ends_the_run_when_not_kept() -> None:
    async with faulty_server(seeded(7, frozenset({51})), delay=0.01) as server:
        with pytest.raises((httpx.HTTPError, HelperError)) as caught:
            await run_through(server, module_of(2000), "raise")
    assert caught.value.__notes__[-1].startswith("in pass 'Double', function 'f")
    assert server.answers.total() < 900
