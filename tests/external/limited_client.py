"""A program that asks a service within shared limits, several at once."""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from apass.errors import BudgetSpentError
from apass.external import Budget, Policy, Rate, Service

KINDS: dict[str, dict[str, Any]] = {
    "rate": {"rate": Rate(questions=20, burst=1)},
    "concurrency": {"concurrency": 2},
    "budget": {"concurrency": 1, "budget": Budget(units=10, cost=lambda request, answer: 2)},
    "hang": {"concurrency": 1},
}


async def ask(kind: str, log: str, number: int) -> int:
    """Write the start and the end of a request."""
    with Path(log).open("a", buffering=1) as file:  # noqa: ASYNC230  lines are written whole
        file.write(json.dumps([time.time(), 1]) + "\n")
        await anyio.sleep(3600 if kind == "hang" else 0.02)
        file.write(json.dumps([time.time(), -1]) + "\n")
    return number


async def main(where: str, kind: str, log: str) -> None:
    """Ask ten questions, and print how many were answered."""
    policy = Policy(timeout=1 if kind == "hang" else 30, shared=where, **KINDS[kind])
    service = Service(partial(ask, kind, log), policy, name="model")
    spent: list[str] = []

    async def question(number: int) -> None:
        try:
            await service.ask(number)
        except BudgetSpentError as error:
            spent.append(str(error))

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(question, number)
    print(json.dumps([service.counts.answered, spent[-1:]]))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], backend=sys.argv[4])
