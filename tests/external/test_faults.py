"""Faults on loopback: two thousand functions through a server that misbehaves by a seeded plan."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import httpx
import pytest

from apass import HelperError, PassContext, analysis, function_pass
from apass.external import Backoff, Policy
from apass.external.http import HttpService
from tests.external.faulty_server import Fault, FaultyServer, Plan, faulty_server

pytestmark = pytest.mark.anyio

Module = dict[str, int]
LIMIT, ATTEMPTS = 8, 3
PASSING: tuple[Fault, ...] = ("delay", "drop", "reset", "half", "garbage", "wrong", "busy", "500")
PATIENT = Policy(timeout=3600, attempts=ATTEMPTS, backoff=Backoff(initial=0, jitter=0.002), concurrency=LIMIT - 2)
IMPATIENT = replace(PATIENT, timeout=4, concurrency=2)
"""For questions that hang at first. All others have time, as one that were out of it would be asked again."""


def is_bad(question: int) -> bool:
    """Tell whether a sick question is so by its own fault."""
    return question % 3 == 0


def seeded(seed: int, sick: frozenset[int]) -> Plan:
    """Return a plan: a fault for a fifth of all requests, and for the sick questions one each time."""

    def plan(question: Any, time: int) -> Fault:
        random = Random(f"{seed} {question} {time}")
        if question in sick:
            return "400" if is_bad(question) else random.choice(("drop", "reset", "500", "garbage"))
        if question in HANGING and time == 0:
            return "hang"
        # The last attempt succeeds, so that what is to become of each function is known.
        return random.choice(PASSING) if time < ATTEMPTS - 1 and random.random() < 0.2 else "none"

    return plan


def doubler(server: FaultyServer, policy: Policy) -> HttpService[int, int]:
    """Return a service that asks the server for the double of a number, and notes how many requests it has begun."""

    def encode(question: int) -> dict[str, int]:
        server.most_begun = max(server.most_begun, service.counts.in_flight)
        return {"question": question}

    service = HttpService[int, int](server.url, policy, encode=encode, decode=lambda reply: int(reply["answer"]))
    return service


def module_of(functions: int) -> Module:
    """Return a module of so many functions, of which two at a time ask the same question."""
    return {f"f{index}": index // 2 for index in range(functions)}


SICK = frozenset(range(5, 1000, 23))
"""Questions that are never answered."""
HANGING = frozenset({200, 240})
"""Questions that are not answered at first, and nothing else."""


async def run_through(server: FaultyServer, mod: Module, on_error: Any) -> tuple[Module, PassContext]:
    """Give all functions to the server; return the module and the context, and assert that nothing is left over."""
    patient, impatient = doubler(server, PATIENT), doubler(server, IMPATIENT)

    @analysis
    async def Double(func: int) -> int:
        return await (impatient if func in HANGING else patient).ask(func)

    async def body(func: int, mod: Module, ctx: PassContext) -> int:
        return await ctx.get(Double, func)

    pass_ = function_pass(body, opt_level=0, name="Double", on_error=on_error)
    try:
        with anyio.fail_after(60):
            # So long that even on a busy machine a fair share of it is more than a hanging question takes.
            async with patient, impatient, PassContext(deadline=9000) as ctx:
                return await pass_(mod), ctx
    finally:
        for service in (patient, impatient):
            assert (service.counts.in_flight, service.counts.waiting) == (0, 0)
        assert server.most_in_flight <= LIMIT
        # Nobody is asked again who has answered.
        assert set(server.answers.values()) <= {1}


def fall_back(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    return -func


@pytest.mark.parametrize(
    ("functions", "on_error", "instead", "level"), [(2000, "keep", 1, "WARNING"), (300, fall_back, -1, "NOTE")]
)
async def test_every_function_is_optimized_kept_or_fallen_back(
    functions: int, on_error: Any, instead: int, level: str
) -> None:
    mod = module_of(functions)
    questions, sick = set(mod.values()), SICK & set(mod.values())
    async with faulty_server(seeded(7, SICK), delay=0.01) as server:
        made, ctx = await run_through(server, mod, on_error)
    assert made == {name: func * (instead if func in sick else 2) for name, func in mod.items()}
    told = [(one.level.name, one.function) for one in ctx.diag_ctx.diagnostics]
    assert Counter(told) == Counter((level, name) for name, func in mod.items() if func in sick)
    # All places were used; how many of them the server saw at once is a matter of how fast it answers.
    assert server.most_begun == PATIENT.concurrency
    # Each question is asked once, and again only after a fault that passes. A failure is not kept, and so it may be
    # asked about twice.
    assert server.answers == Counter(questions - sick)
    assert max(server.requests[one] for one in questions - sick) == ATTEMPTS
    for one in sick:
        attempts = 1 if is_bad(one) else ATTEMPTS
        assert server.requests[one] in (attempts, 2 * attempts)
    assert set(server.faults) == {*PASSING, "none", "400"} | ({"hang"} if questions & HANGING else set())


async def test_where_the_policy_says_so_the_first_failure_ends_all() -> None:
    async with faulty_server(seeded(7, frozenset({51})), delay=0.01) as server:
        with pytest.raises((httpx.HTTPError, HelperError)) as caught:
            await run_through(server, module_of(2000), "raise")
    assert caught.value.__notes__[-1].startswith("in pass 'Double', function 'f")
    assert server.answers.total() < 900
