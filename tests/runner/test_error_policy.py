"""Results of failed functions that `on_error` recovered from are not cached."""

from typing import Any

import pytest

from apass import PassContext, Sequential, function_pass
from apass.stores.memory import MemoryStore
from tests.helpers.calls import Calls

pytestmark = pytest.mark.anyio

Module = dict[str, int]


def fall_back(func: int, mod: Module, ctx: PassContext, error: Exception) -> int:
    return func + 100


@pytest.mark.parametrize("cacheable", [True, "module"])
@pytest.mark.parametrize(("on_error", "recovered"), [("keep", 1), (fall_back, 101)])
@pytest.mark.parametrize("in_sequence", [False, True])
async def test_recovered_result_is_not_cached(cacheable: Any, on_error: Any, recovered: int, in_sequence: bool) -> None:
    queried = Calls()

    async def query(func: int, mod: Module, ctx: PassContext) -> int:
        queried.append(func)
        if len(queried) == 1:
            raise OSError("down")
        return -func

    query_pass = function_pass(query, opt_level=0, on_error=on_error, cacheable=cacheable, version="1")
    pass_ = Sequential([query_pass]) if in_sequence else query_pass
    async with PassContext(store=MemoryStore()):
        results = [await pass_({"f": 1}) for _ in range(3)]
    assert results == [{"f": recovered}, {"f": -1}, {"f": -1}]
    assert queried == [1, 1]
