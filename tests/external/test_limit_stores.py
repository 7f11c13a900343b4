"""Stores of limits that cannot be used, and budgets of one event loop."""

import gc
import json
import sqlite3
import warnings
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass.errors import BudgetSpentError, StoreError, StoreWarning
from apass.external import Budget, Policy, Rate, Service, limit_stores
from apass.external.limit_stores import LocalLimits
from apass.external.shared_limits import SharedLimits

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("{}/no/such/limits.db", "the file of limits '.*' cannot be used: unable to open database file"),
        ("redis://127.0.0.1:1", "the Redis server of limits cannot be used"),
        ("postgresql://user:secret@127.0.0.1:1/x", "the database of limits cannot be used: .*refused"),
    ],
)
async def test_unreachable_store_is_an_error(where: str, message: str, tmp_path: Path) -> None:
    service = Service(anyio.sleep, Policy(shared=where.format(tmp_path), rate=Rate(questions=1)), name="model")
    with warnings.catch_warnings():
        # coredis does not close the streams of failed connections.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(StoreError, match=message) as caught:
            await service.ask(0)
        gc.collect()
    assert "secret" not in str(caught.value)


async def test_locked_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_stores, "TIMEOUT", 0.1)
    service = Service(anyio.sleep, Policy(shared=tmp_path / "limits.db", rate=Rate(questions=1000)), name="model")
    await service.ask(0)
    with closing(sqlite3.connect(tmp_path / "limits.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"limits\.db' cannot be used: database is locked"):
            await service.ask(0)
    await service.ask(0)


async def test_answer_is_kept_without_the_store(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"

    async def ask(request: int) -> int:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE apass_limits")
        return request

    service = Service(ask, Policy(shared=path, concurrency=1), name="model")
    with pytest.warns(StoreWarning, match="the end of a request to model is not counted: the file of limits"):
        assert await service.ask(7) == 7


async def test_budget_of_one_loop_counts_costs() -> None:
    async def count_tokens(request: str) -> int:
        return len(request)

    service = Service(count_tokens, Policy(budget=Budget(units=5, cost=lambda request, answer: answer)), name="model")
    assert [await service.ask("abc"), await service.ask("abc")] == [3, 3]
    with pytest.raises(BudgetSpentError, match="model has spent its budget, 6 of 5 units; give it a larger one"):
        await service.ask("")


class CountedLimits(LocalLimits):
    """Counts the reads, and hangs after the first change."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__()
        self.reads = 0
        self.has_changed = anyio.Event()
        self._hangs = hangs

    async def read(self, name: str) -> tuple[str, float]:
        """Count a read."""
        self.reads += 1
        return await super().read(name)

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        is_same = await super().swap(name, old, new)
        if self._hangs and not self.has_changed.is_set():
            self.has_changed.set()
            await anyio.sleep_forever()
        return is_same


async def test_request_cancelled_at_its_start_frees_slot() -> None:
    store = CountedLimits(hangs=True)
    limits = SharedLimits("model", Policy(concurrency=1), store)

    async def hold() -> None:
        async with limits.permission():
            pytest.fail("the permission was given")

    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await store.has_changed.wait()
        group.cancel_scope.cancel()
    assert json.loads((await store.read("model"))[0])["slots"] == {}


async def test_requests_reserve_their_times_at_once() -> None:
    store = CountedLimits()
    limits = SharedLimits("model", Policy(rate=Rate(questions=100)), store)
    before = (await store.read("model"))[1]
    for _ in range(10):
        async with limits.permission():
            pass
    text, _ = await store.read("model")
    # Each request reads the state once.
    assert store.reads == 12
    assert json.loads(text)["full_at"] >= before + 0.1


async def test_costs_may_be_numbers_of_any_type() -> None:
    async def price_of(request: str) -> Any:
        return Decimal(request)

    service = Service(price_of, Policy(budget=Budget(units=1, cost=lambda request, answer: answer)), name="model")
    for _ in range(2):
        await service.ask("0.5")
    with pytest.raises(BudgetSpentError, match="1 of 1 units"):
        await service.ask("0.5")


async def test_failed_request_costs_nothing() -> None:
    async def fail(request: int) -> int:
        if not request:
            raise ValueError("no")
        return request

    service = Service(fail, Policy(budget=Budget(units=2)), name="model")
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await service.ask(0)
    assert [await service.ask(1), await service.ask(1)] == [1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shared": ""}, "shared=...) must be a URL or the path of a file, got ''"),
        ({"shared": "mysql://user:secret@host/x"}, "or the path of a file, got mysql://..."),
        ({"shared": "f", "concurrency": 1, "timeout": None}, "shared=..., concurrency=...) needs a timeout, after"),
        ({"shared": "f", "hedge_after": 1.0}, "shared=..., hedge_after=...) cannot be combined: a hedge needs a slot"),
        ({"budget": 3}, "budget=...) must be a Budget, got 3"),
    ],
)
def test_invalid_shared_policies_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Policy(**options)
    assert message in str(caught.value)


def test_invalid_budgets_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"Budget\(units=...\) must be a positive number, got 0"):
        Budget(units=0)
    with pytest.raises(TypeError, match=r"Budget\(cost=...\) must be a function of a request and its answer, got 3"):
        Budget(units=1, cost=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
