"""Interpreters as workers, on Python versions that support them."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass import PassContext, optimize_all
from apass.core.executor import executor_in_force
from apass.errors import ExecutorError, RemoteError
from apass.executors import Executor
from tests.executors import contexts, work
from tests.executors.files import written_in

HAS_INTERPRETERS = sys.version_info >= (3, 13)


@pytest.mark.skipif(HAS_INTERPRETERS, reason="this Python has interpreters")
def test_older_python_error_names_the_required_version() -> None:
    with pytest.raises(ExecutorError, match=r"the interpreter executor requires Python 3\.13 or later, this is 3\.1"):
        executor_in_force("interpreter")


@pytest.mark.skipif(not HAS_INTERPRETERS, reason="the interpreter executor requires Python 3.13")
@pytest.mark.anyio
async def test_bodies_functions_and_modules_run_in_interpreters() -> None:
    executor: Executor | None = executor_in_force("interpreter")
    assert executor is not None
    async with PassContext(executor="interpreter", config={"tests.executors.step": 3}):
        assert await work.Increment({f"f{i}": i for i in range(30)}) == {f"f{i}": i + 3 for i in range(30)}
        with pytest.raises(RemoteError, match="OddError: odd: no"):
            await work.Fail({"a": "odd"})
    assert await executor.map(work.pid_after, [0.0, 0.0]) == [os.getpid()] * 2
    assert await optimize_all([{"a": 1}], work.AddSum, executor=executor) == [{"a": 1, "sum": 1}]


@pytest.mark.skipif(not HAS_INTERPRETERS, reason="the interpreter executor requires Python 3.13")
@pytest.mark.anyio
async def test_bodies_in_interpreters_see_the_context() -> None:
    async with PassContext(3, executor="interpreter", config={"tests.executors.step": 50}, deadline=600):
        result: Any = await contexts.Describe({"f": 1})
    assert result == {"f": [True, False, 3, 50, True, ["Describe", "f", None]]}


@pytest.mark.skipif(not HAS_INTERPRETERS, reason="the interpreter executor requires Python 3.13")
@pytest.mark.anyio
async def test_cancelled_run_waits_for_its_interpreters(tmp_path: Path) -> None:
    executor: Executor | None = executor_in_force("interpreter")
    assert executor is not None
    path = tmp_path / "state"
    async with anyio.create_task_group() as group:
        group.start_soon(executor.call, work.record_start_and_end, str(path))
        await written_in(path)
        group.cancel_scope.cancel()
    assert path.read_text() == "ended"
