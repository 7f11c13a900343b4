"""Stores of limits that cannot be used, and budgets of one event loop."""

import gc
import warnings
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass.errors import BudgetSpentError, StoreError, StoreWarning
from apass.external import Budget, Policy, Rate, Service

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


async def test_answer_is_kept_without_the_store(tmp_path: Path) -> None:
    path = tmp_path / "limits.db"

    async def ask(request: int) -> int:
        path.write_bytes(b"no database" * 1000)
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
