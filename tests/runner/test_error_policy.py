"""Failures made good are no results: what was kept or fallen back on is not kept in a store."""

from typing import Any

import pytest

from apass import PassContext, Sequential, function_pass
from apass.runner.error_policy import note_failure, watch_failures
from apass.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

Module = dict[str, int]


def fall_back(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    return func + 100


@pytest.mark.parametrize("cacheable", [True, "module"])
@pytest.mark.parametrize(("on_error", "at_first"), [("keep", 1), (fall_back, 101)])
@pytest.mark.parametrize("in_sequence", [False, True])
async def test_only_what_the_body_made_is_kept(cacheable: Any, on_error: Any, at_first: int, in_sequence: bool) -> None:
    asked: list[int] = []

    async def ask(func: int, mod: Module, ctx: PassContext) -> int:
        asked.append(func)
        if len(asked) == 1:
            raise OSError("down")
        return -func

    alone = function_pass(ask, opt_level=0, on_error=on_error, cacheable=cacheable, version="1")
    pass_ = Sequential([alone]) if in_sequence else alone
    async with PassContext(store=MemoryStore()):
        made = [await pass_({"f": 1}) for _ in range(3)]
    assert made == [{"f": at_first}, {"f": -1}, {"f": -1}]
    assert asked == [1, 1]


def test_all_who_watch_are_told_and_none_afterwards() -> None:
    with watch_failures() as outer:
        with watch_failures() as inner:
            pass
        note_failure()
    note_failure()
    assert (outer.seen, inner.seen) == (True, False)
