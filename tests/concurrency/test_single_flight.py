"""Single flight: one computation for all who ask the same thing at once, whoever of them goes away."""

from collections import Counter
from random import Random

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass import BudgetExceededError
from apass.concurrency.single_flight import SingleFlight

pytestmark = pytest.mark.anyio


class Oracle:
    """Computes when it is let go, and counts."""

    def __init__(self) -> None:
        self.flights = SingleFlight[str, str]()
        self.go = anyio.Event()
        self.begun: Counter[str] = Counter()
        self.answers: list[str] = []

    async def ask(self, key: str, scope: anyio.CancelScope | None = None) -> None:
        """Ask, within `scope`, and keep the answer or the error's text."""

        async def compute() -> str:
            self.begun[key] += 1
            await self.go.wait()
            if key.startswith("bad"):
                raise ValueError(key)
            return key.upper()

        with scope or anyio.CancelScope():
            try:
                self.answers.append(await self.flights.get(key, compute))
            except ValueError as error:
                self.answers.append(f"error {error}")


async def test_all_who_ask_at_once_share_one_computation() -> None:
    oracle = Oracle()
    async with anyio.create_task_group() as group:
        for index in range(100):
            group.start_soon(oracle.ask, f"k{index % 4}")
        await anyio.wait_all_tasks_blocked()
        assert len(oracle.flights) == 4
        oracle.go.set()
    assert oracle.begun == {"k0": 1, "k1": 1, "k2": 1, "k3": 1}
    assert Counter(oracle.answers) == {"K0": 25, "K1": 25, "K2": 25, "K3": 25}
    assert len(oracle.flights) == 0


async def test_a_failure_goes_to_all_who_wait_and_is_not_kept() -> None:
    oracle = Oracle()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(oracle.ask, "bad")
        await anyio.wait_all_tasks_blocked()
        oracle.go.set()
    await oracle.ask("bad")
    assert (oracle.answers, oracle.begun["bad"]) == (["error bad"] * 4, 2)


@pytest.mark.parametrize("gone", [[0], [0, 1], [1], [2], [0, 2]])
async def test_who_is_cancelled_does_not_fail_the_others(gone: list[int]) -> None:
    oracle = Oracle()
    scopes = [anyio.CancelScope() for _ in range(4)]
    async with anyio.create_task_group() as group:
        for scope in scopes:
            group.start_soon(oracle.ask, "k", scope)
            await anyio.wait_all_tasks_blocked()
        for index in gone:
            scopes[index].cancel()
            await anyio.wait_all_tasks_blocked()
        oracle.go.set()
    assert oracle.answers == ["K"] * (4 - len(gone))
    # Only where the one that computes goes away does another begin again.
    assert oracle.begun["k"] in range(1 + (0 in gone), 2 + (0 in gone) * len(gone))


async def test_who_is_out_of_budget_does_not_fail_the_others() -> None:
    flights = SingleFlight[str, int]()
    answers: list[int] = []
    go = anyio.Event()

    async def poor() -> int:
        await go.wait()
        raise BudgetExceededError("no time left")

    async def ask_poorly() -> None:
        with pytest.raises(BudgetExceededError):
            await flights.get("k", poor)

    async def rich() -> int:
        await checkpoint()
        return 5

    async def ask_richly() -> None:
        answers.append(await flights.get("k", rich))

    async with anyio.create_task_group() as group:
        group.start_soon(ask_poorly)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask_richly)
        group.start_soon(ask_richly)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert answers == [5, 5]


@pytest.mark.parametrize("seed", range(5))
async def test_under_random_cancellation_everyone_gets_an_answer_or_is_cancelled(seed: int) -> None:
    random = Random(seed)
    flights = SingleFlight[int, int]()
    ended: Counter[str] = Counter()
    at_work: Counter[int] = Counter()

    async def compute(key: int) -> int:
        at_work[key] += 1
        try:
            assert at_work[key] == 1
            for _ in range(random.randrange(4)):
                await checkpoint()
            return key * 2
        finally:
            at_work[key] -= 1

    async def ask(key: int, scope: anyio.CancelScope) -> None:
        with scope:
            assert await flights.get(key, lambda: compute(key)) == key * 2
            ended["answered"] += 1
            return
        ended["cancelled"] += 1

    scopes = [anyio.CancelScope() for _ in range(200)]
    async with anyio.create_task_group() as group:
        for index, scope in enumerate(scopes):
            group.start_soon(ask, index % 7, scope)
            if random.random() < 0.3:
                random.choice(scopes[: index + 1]).cancel()
            if random.random() < 0.3:
                await checkpoint()
    assert ended.total() == 200
    assert len(flights) == 0
