"""Faults on loopback: two thousand functions through a server that misbehaves by a seeded plan."""

from collections import Counter
from random import Random
from typing import Any

import anyio
import httpx
import pytest

from apass import HelperError, PassContext, function_pass
from apass.external import Backoff, Policy
from apass.external.http import HttpService
from apass.single_flight import SingleFlight
from tests.external.faulty_server import Fault, FaultyServer, Plan, faulty_server

pytestmark = pytest.mark.anyio

Module = dict[str, int]
LIMIT, ATTEMPTS = 8, 3
PASSING: tuple[Fault, ...] = ("delay", "drop", "reset", "half", "garbage", "wrong", "busy", "500")
POLICY = Policy(timeout=1.5, attempts=ATTEMPTS, backoff=Backoff(initial=0, jitter=0.002), concurrency=LIMIT)


def is_bad(question: int) -> bool:
    """Tell whether a sick question is so by its own fault."""
    return question % 3 == 0


def seeded(seed: int, sick: frozenset[int]) -> Plan:
    """Return a plan: a fault for a fifth of all requests, and for the sick questions one each time."""

    def plan(question: Any, time: int) -> Fault:
        random = Random(f"{seed} {question} {time}")
        if question in sick:
            return "400" if is_bad(question) else random.choice(("drop", "reset", "500", "garbage"))
        if question in (0, 40) and time == 0:
            return "hang"
        # The last attempt succeeds, so that what is to become of each function is known.
        return random.choice(PASSING) if time < ATTEMPTS - 1 and random.random() < 0.2 else "none"

    return plan


class Doubler:
    """Asks the server for each distinct question, once for all who want to know, and keeps what came of it."""

    def __init__(self, url: str) -> None:
        self.service = HttpService[int, int](
            url, POLICY, encode=lambda question: {"question": question}, decode=lambda reply: int(reply["answer"])
        )
        self.flights = SingleFlight[int, int]()
        self.known: dict[int, int | Exception] = {}

    async def double(self, question: int) -> int:
        """Return the double of `question`."""
        known = self.known.get(question)
        if isinstance(known, Exception):
            raise known
        return await self.flights.get(question, lambda: self.find_out(question)) if known is None else known

    async def find_out(self, question: int) -> int:
        """Ask the server."""
        try:
            self.known[question] = answer = await self.service.ask(question)
        except Exception as error:
            self.known[question] = error
            raise
        return answer


def module_of(functions: int) -> Module:
    """Return a module of so many functions, of which two at a time ask the same question."""
    return {f"f{index}": index // 2 for index in range(functions)}


SICK = frozenset(range(5, 1000, 23))


async def run_through(server: FaultyServer, mod: Module, on_error: Any) -> tuple[Module, PassContext]:
    """Give all functions to the server; return the module and the context, and assert that nothing is left over."""
    doubler = Doubler(server.url)

    async def body(func: int, mod: Module, ctx: PassContext) -> int:
        return await doubler.double(func)

    pass_ = function_pass(body, opt_level=0, name="Double", on_error=on_error)
    try:
        with anyio.fail_after(60):
            async with doubler.service, PassContext(deadline=900) as ctx:
                return await pass_(mod), ctx
    finally:
        counts = doubler.service.counts
        assert (counts.in_flight, counts.waiting, len(doubler.flights)) == (0, 0, 0)
        assert server.most_in_flight <= LIMIT
        # Nobody is asked again who has answered.
        assert set(server.answers.values()) <= {1}
        assert max(server.requests.values()) <= ATTEMPTS


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
    # All places were used.
    assert server.most_in_flight == LIMIT
    # Each question is asked once, and again only after a fault that passes.
    assert server.answers == Counter(questions - sick)
    assert {one: server.requests[one] for one in sick} == {one: 1 if is_bad(one) else ATTEMPTS for one in sick}
    assert set(server.faults) == {*PASSING, "none", "hang", "400"}


async def test_where_the_policy_says_so_the_first_failure_ends_all() -> None:
    async with faulty_server(seeded(7, SICK), delay=0.01) as server:
        with pytest.raises((httpx.HTTPError, HelperError)) as caught:
            await run_through(server, module_of(2000), "raise")
    assert caught.value.__notes__[-1].startswith("in pass 'Double', function 'f")
    assert server.answers.total() < 900
