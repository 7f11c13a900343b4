"""Whole modules in executors: `optimize_all(executor=...)`."""

import os
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from apass import Diagnostic, DiagnosticLevel, PassContext, Sequential, optimize_all, optimize_stream, relay
from apass.core.store import Store
from apass.errors import PassTimeoutError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from apass.stores import MemoryStore, SqliteStore
from tests.executors import work
from tests.helpers.recording import module_pass_of

pytestmark = pytest.mark.anyio

every_executor = pytest.mark.parametrize(
    "executor", [ThreadExecutor(workers=2), ProcessExecutor(workers=2)], ids=["threads", "processes"]
)


@pytest.mark.process
@every_executor
async def test_modules_keep_their_keys(executor: Executor) -> None:
    modules = {f"m{i}": {"f": i} for i in range(6)}
    async with PassContext(config={"tests.executors.step": 5}) as ctx:
        results = await optimize_all(modules, Sequential([work.Increment, work.AddSum]), executor=executor)
    assert results == {f"m{i}": {"f": i + 5, "sum": i + 5} for i in range(6)}
    expected = [Diagnostic(DiagnosticLevel.WARNING, "summed", None, "AddSum", None, name) for name in modules]
    assert sorted(ctx.diag_ctx.diagnostics, key=lambda diagnostic: diagnostic.module or "") == expected


@every_executor
async def test_unchanged_module_is_the_same_object(executor: Executor) -> None:
    mod = {"f": 1}
    assert (await optimize_all([mod], work.Keep, executor=executor))[0] is mod


@every_executor
async def test_failed_module_names_location_and_others_finish(executor: Executor) -> None:
    results: dict[str, Any] = await optimize_all(
        {"good": {"a": "fine"}, "bad": {"a": "plain"}}, work.Fail, errors="collect", executor=executor
    )
    assert results["good"].module == {"a": "done"}
    assert isinstance(results["bad"].error, LookupError)
    assert "in pass 'Fail', function 'a', module 'bad'" in results["bad"].error.__notes__


@pytest.mark.parametrize("executor", [None, ThreadExecutor(workers=1), ProcessExecutor(workers=1)], ids=str)
async def test_exit_of_pass_leaves_a_worker_as_inline(executor: Executor | None) -> None:
    with pytest.raises(SystemExit) as caught:
        await optimize_all([{"a": 1}], work.Exit, executor=executor)
    assert caught.value.code == 3
    assert "in pass 'Exit', module '0'" in caught.value.__notes__


@every_executor
async def test_whole_modules_use_a_shared_store(executor: Executor, tmp_path: Path) -> None:
    async def run(store: Store) -> int:
        ctx = PassContext(store=store)
        pipeline = Sequential([work.DoubleAll])
        assert await optimize_all([{"a": 1}], pipeline, executor=executor, context=ctx) == [{"a": 2}]
        return len(ctx.diag_ctx.diagnostics)

    async with SqliteStore(tmp_path / "results.db") as store:
        assert [await run(store), await run(store)] == [1, 0]
    assert await run(SqliteStore(tmp_path / "results.db")) == 0
    assert [await run(MemoryStore()), await run(MemoryStore())] == [1, 1]


@pytest.mark.filterwarnings("ignore::apass.errors.StoreWarning")
@every_executor
async def test_whole_modules_run_without_a_broken_store(executor: Executor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ctx = PassContext(store=SqliteStore(tmp_path / "file" / "results.db"))
    assert await optimize_all([{"a": 1}], work.DoubleAll, executor=executor, context=ctx) == [{"a": 2}]


@every_executor
async def test_nested_executor_runs_inline_in_a_worker(executor: Executor) -> None:
    results = await optimize_all([{"a": 1, "b": 2}], work.ProcessIdInProcess, executor=executor)
    pids = set(results[0].values())
    assert len(pids) == 1
    assert (os.getpid() in pids) == isinstance(executor, ThreadExecutor)


@every_executor
async def test_workers_do_not_warn_of_unmatched_names(executor: Executor) -> None:
    async with PassContext(disabled_pass=["Keep"]):
        await optimize_all([{"a": 1}], Sequential([work.Keep]), executor=executor)


@pytest.mark.slow
@every_executor
async def test_cancelled_run_ends_whole_modules(executor: Executor) -> None:
    with anyio.fail_after(60), anyio.move_on_after(1.5) as scope:
        await optimize_all([{"a": 1}] * 3, work.WaitForever, executor=executor)
    assert scope.cancelled_caught


@pytest.mark.process
async def test_optimize_stream_yields_every_outcome(anyio_backend: str) -> None:
    async with optimize_stream([{"f": 1}, {"f": 2}], work.Increment, executor=ProcessExecutor(workers=2)) as outcomes:
        results = {outcome.name: outcome.unwrap() async for outcome in outcomes}
    assert results == {0: {"f": 2}, 1: {"f": 3}}


async def test_relay_results_in_processes_equal_inline_results() -> None:
    mod = relay.parse(
        '#[version = "0.0.5"]\n'
        "def @g(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { add(add(%x, 0f), 1f) }\n"
        "def @f(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @g(add(%x, add(1f, 2f))) }\n"
    )
    passes = Sequential([relay.transform.InferType(), relay.transform.FoldConstant()])
    inline = await passes(mod)
    executor = ProcessExecutor(workers=1)
    async with PassContext(executor=executor):
        assert relay.structural_equal(await passes(mod), inline)
    (whole,) = await optimize_all([mod], passes, executor=executor)
    assert relay.structural_equal(whole, inline)


async def test_timeout_of_thread_counts_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(mod: Any, ctx: Any) -> Any:
        await anyio.sleep_forever()

    start_thread = anyio.to_thread.run_sync

    async def start_late(*args: Any, **options: Any) -> Any:
        await anyio.sleep(0.2)  # the thread starts after the time limit
        return await start_thread(*args, **options)

    monkeypatch.setattr("apass.executors.threads.to_thread.run_sync", start_late)
    with pytest.raises(PassTimeoutError, match=r"pass 'P' took longer than .*, 0\.05 s"):
        await ThreadExecutor().optimize(module_pass_of(wait), {"f": 1}, PassContext(), timeout=0.05)
