"""The current context within bodies, modules and plain functions in executors."""

from typing import Any

import pytest

from apass import Diagnostic, DiagnosticLevel, PassContext, optimize_all
from apass.core.remarks import Remark
from apass.core.run import Run
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.executors import contexts
from tests.executors.contexts import Describe, DescribeModule

pytestmark = [pytest.mark.anyio, pytest.mark.process]

every_executor = pytest.mark.parametrize(
    "executor", [ThreadExecutor(workers=2), ProcessExecutor(workers=1)], ids=["threads", "processes"]
)
call_helper: Any = contexts.CallHelper
CONFIG = {"tests.executors.step": 50}


class Listener:
    """Instrument that records where statistics and remarks come from."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        self.received.append((run and run.function, name, amount))

    def on_remark(self, remark: Remark) -> None:
        self.received.append((remark.pass_name, remark.function, remark.message))


@every_executor
async def test_current_context_of_a_body_is_its_own(executor: Executor) -> None:
    async with PassContext(3, executor=executor, config=CONFIG, deadline=600):
        result: Any = await optimize_all({"m": {"f": 1}}, Describe)
    assert result == {"m": {"f": [True, False, 3, 50, True, ["Describe", "f", "m"]]}}


@every_executor
async def test_body_without_deadline_has_infinite_time(executor: Executor) -> None:
    async with PassContext(executor=executor):
        result: Any = await Describe({"f": 1})
    assert result == {"f": [True, True, 2, 1, False, ["Describe", "f", None]]}


@every_executor
async def test_context_of_a_module_has_options_and_deadline(executor: Executor) -> None:
    async with PassContext(3, config=CONFIG, deadline=600) as ctx:
        (result,) = await optimize_all([{"f": 1}], DescribeModule, executor=executor)
    assert result == {"f": [True, 3, 50, True, ["DescribeModule", None, "0"]]}
    expected = Diagnostic(DiagnosticLevel.NOTE, "described", None, "DescribeModule", None, "0")
    assert ctx.diag_ctx.diagnostics == (expected,)


@every_executor
async def test_called_function_sees_context_of_its_caller(executor: Executor) -> None:
    inline, remote = Listener(), Listener()
    async with PassContext(3, config=CONFIG, deadline=600, instruments=[inline]) as inline_ctx:
        expected: Any = await optimize_all({"m": {"f": 1}}, call_helper())
    async with PassContext(3, config=CONFIG, deadline=600, instruments=[remote]) as ctx:
        result: Any = await optimize_all({"m": {"f": 1}}, call_helper(executor))
    assert result == expected == {"m": {"f": [[3, 50, True, ["CallHelper", "f", "m"]]] * 2}}
    assert remote.received == inline.received != []
    assert ctx.diag_ctx.diagnostics == inline_ctx.diag_ctx.diagnostics != ()


@every_executor
async def test_function_called_outside_of_passes_sees_the_context(executor: Executor) -> None:
    async with PassContext(0, config=CONFIG):
        assert await executor.call(contexts.describe) == [0, 50, False, None]


@every_executor
async def test_emissions_of_a_body_reach_the_program(executor: Executor) -> None:
    listener = Listener()
    async with PassContext(executor=executor, instruments=[listener]) as ctx:
        await Describe({"f": 1})
    assert listener.received == [("f", "described", 1), ("Describe", "f", "described")]
    assert ctx.diag_ctx.diagnostics == (Diagnostic(DiagnosticLevel.NOTE, "described", None, "Describe", "f"),)
