"""Workers that die, hang or are cancelled: retries, errors and replacement."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter

import anyio
import anyio.to_thread
import pytest

from apass import PassContext, Sequential, function_pass
from apass.errors import OutOfMemoryError, PassTimeoutError, WorkerLostError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.executors import work
from tests.executors.files import pid_in, written, written_in
from tests.executors.work import Module

pytestmark = [pytest.mark.anyio, pytest.mark.process]

PROCESSES = ProcessExecutor(workers=2)
THREADS = ThreadExecutor(workers=2)
every_executor = pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not count."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_work_is_retried_when_its_worker_dies(tmp_path: Path) -> None:
    mod = {f"f{i}": "x" for i in range(20)} | {"deadly": str(tmp_path / "was here")}
    async with PassContext(executor=PROCESSES):
        assert await work.DieOnce(mod) == dict.fromkeys(mod, "done")


async def test_work_that_kills_two_workers_fails_alone() -> None:
    mod = {"a": "x", "b": "deadly", "c": "y"}
    async with PassContext(executor=PROCESSES):
        with pytest.raises(
            WorkerLostError, match=r"body of pass 'DieAlways' lost two workers.*: the worker process died"
        ) as caught:
            await work.DieAlways(mod)
        assert caught.value.__notes__ == ["in pass 'DieAlways', function 'b'"]
        assert await work.DieAlwaysKept(mod) == {"a": "done", "b": "deadly", "c": "done"}


async def test_worker_with_a_program_over_its_memory_ends(tmp_path: Path) -> None:
    mod = {"a": "x", "b": str(tmp_path / "pid"), "c": "x"}
    message = r"body of pass 'Allocate' ran out of memory: \d+\.\d of 400\.0 MiB"
    async with PassContext(executor=ProcessExecutor(1, memory=400 * 2**20)):
        with pytest.raises(OutOfMemoryError, match=message) as caught:
            await work.Allocate(mod)
        assert caught.value.__notes__ == ["in pass 'Allocate', function 'b'"]
        assert not any(is_alive(int(pid)) for pid in written([tmp_path / "pid"]))
        assert await work.Allocate({"a": "x"}) == {"a": "done"}


async def test_error_names_the_pass_that_the_worker_ran() -> None:
    pipeline = Sequential([Sequential([work.Keep, work.DieAlways], name="inner"), work.Keep])
    with pytest.raises(WorkerLostError) as caught:
        await PROCESSES.optimize(pipeline, {"a": "x", "b": "deadly", "c": "y"}, PassContext())
    message = "pass 'DieAlways' lost two workers in succession: the worker process died (exit status 3)"
    assert str(caught.value) == message
    assert caught.value.__notes__ == ["in pass 'sequential > inner > DieAlways', function 'b'"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no segmentation fault")
async def test_crash_of_a_worker_has_its_line() -> None:
    with pytest.raises(WorkerLostError, match=r"function 'crash' lost two workers .*SIGSEGV") as caught:
        await PROCESSES.call(work.crash)
    (note,) = caught.value.__notes__
    assert note.startswith("traceback of the crash:\nFatal Python error: Segmentation fault\n")
    assert (note.count("  File "), "work.py" in note) == (1, True)


async def test_killed_worker_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    results: list[Module] = []
    pids: list[int] = []

    async def run() -> None:
        async with PassContext(executor=PROCESSES):
            results.append(await work.RecordAndWait({"a": str(path)}))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        pids.append(await pid_in(path))
        # Empty the file but do not remove it: the body ends when the file is gone.
        path.write_text("")
        os.kill(pids[0], signal.SIGKILL)
        pids.append(await pid_in(path))
        path.unlink()
    assert results == [{"a": "done"}]
    assert pids[0] != pids[1]


@pytest.mark.slow
async def test_hanging_worker_is_replaced_and_work_retried(tmp_path: Path) -> None:
    executor = ProcessExecutor(workers=2, timeout=1.0)
    async with PassContext(executor=executor):
        assert await work.Hang({"a": str(tmp_path / "was here"), "b": "x"}) == {"a": "done", "b": "done"}


@pytest.mark.slow
async def test_work_that_hangs_twice_raises_with_traceback() -> None:
    executor = ProcessExecutor(workers=2, timeout=0.3)
    async with PassContext(executor=executor):
        with pytest.raises(
            WorkerLostError, match=r"lost two workers in succession: it took longer than 0\.3 s"
        ) as caught:
            await work.Hang({"a": "hang", "b": "x"})
    assert "work.py" in caught.value.__notes__[0]
    with pytest.raises(WorkerLostError, match="function 'hang' lost two workers"):
        await executor.call(work.hang)


async def test_error_names_the_function_of_a_partial() -> None:
    with pytest.raises(WorkerLostError, match=r"^function '_exit' lost two workers"):
        await PROCESSES.call(partial(os._exit, 3))


async def test_pass_timeout_is_not_retried() -> None:
    async with PassContext(executor=PROCESSES) as ctx:
        with pytest.raises(PassTimeoutError, match=r"^the body of pass 'HangLimited' took longer than 0\.2 s"):
            await work.HangLimited({"a": "hang"})
        assert ctx.diag_ctx.diagnostics == ()


@every_executor
async def test_cancelled_run_stops_bodies_and_starts_no_more(executor: Executor, tmp_path: Path) -> None:
    paths = [tmp_path / str(i) for i in range(8)]
    async with PassContext(executor=executor), anyio.create_task_group() as group:
        group.start_soon(work.RecordAndWait, {path.name: str(path) for path in paths})
        while len(written(paths)) < 2:  # noqa: ASYNC110  another process writes
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    pids = written(paths)
    assert len(pids) == 2
    assert [pid for pid in pids if int(pid) != os.getpid() and is_alive(int(pid))] == []


async def test_cancelled_run_waits_for_its_threads() -> None:
    started, ended = Event(), list[bool]()

    def Slow(func: int, mod: Module, ctx: PassContext) -> int:
        started.set()
        work.work_for(0.2)
        ended.append(True)
        return func

    async with anyio.create_task_group() as group:
        group.start_soon(function_pass(Slow, opt_level=0, executor=THREADS), {"a": 1})
        await anyio.to_thread.run_sync(started.wait)
        group.cancel_scope.cancel()
    assert ended == [True]


async def test_worker_survives_cancellation_when_nearly_done(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("apass.executors.processes.CANCEL_GRACE", 60.0)
    paths, pids = [tmp_path / "a", tmp_path / "b"], list[int]()
    async with PassContext(executor=PROCESSES), anyio.create_task_group() as group:
        group.start_soon(work.RecordAndWait, {path.name: str(path) for path in paths})
        pids += [await pid_in(path) for path in paths]
        group.cancel_scope.cancel()
        for path in paths:
            path.unlink()
    assert set(await PROCESSES.map(work.pid_after, [0.01] * 6)) <= set(pids)


async def test_failure_ends_the_running_bodies(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    async with PassContext(executor=PROCESSES):
        with pytest.raises(LookupError):
            await work.WaitOrFail({"a": str(path), "b": f"fail once {path} is there"})
    assert not is_alive(int(path.read_text()))


BEAT = """
import sys, time
from pathlib import Path
from statistics import median
gaps, path = [], Path(sys.argv[1])
path.write_text("started")
while path.exists():
    before = time.perf_counter()
    time.sleep(0.002)
    gaps.append(time.perf_counter() - before)
print(median(gaps))
"""
"""A script that measures how late the machine wakes a process that sleeps 2 ms."""


@pytest.mark.slow
async def test_loop_stays_responsive_when_all_cpus_are_busy(tmp_path: Path) -> None:
    bodies, beat = [str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "beat"
    gaps, others = list[float](), list[float]()

    async def measure_other_process() -> None:
        done = await anyio.run_process([sys.executable, "-c", BEAT, str(beat)])
        others.append(float(done.stdout))

    async with anyio.create_task_group() as group:
        group.start_soon(PROCESSES.map, work.record_and_spin, bodies)
        group.start_soon(measure_other_process)
        for path in [*map(Path, bodies), beat]:
            await written_in(path)
        # The bodies run until their files are removed. If they blocked the loop, this line would not run.
        for _ in range(200):
            before = perf_counter()
            await anyio.sleep(0.002)
            gaps.append(perf_counter() - before)
        for path in [*map(Path, bodies), beat]:
            path.unlink()
    # The bound is 20 ms, or twice the lateness of an idle process if the machine is busy.
    assert median(gaps) < max(0.02, 2 * others[0])


@every_executor
async def test_call_and_map_run_plain_functions(executor: Executor) -> None:
    assert await executor.call(work.double, 4) == 8
    assert await executor.map(work.double, range(500)) == [2 * i for i in range(500)]
    assert await executor.map(work.double, []) == []
    with pytest.raises(LookupError, match="three"):
        await executor.map(work.fail_at_three, range(10))
    with pytest.raises(LookupError, match="three"):
        await executor.call(work.fail_at_three, 3)


async def test_executor_serves_several_event_loops(anyio_backend: str) -> None:
    def run_in_thread() -> list[int]:
        return anyio.run(PROCESSES.map, work.double, [1, 2], backend=anyio_backend)

    assert await anyio.to_thread.run_sync(run_in_thread) == [2, 4]


async def test_idle_workers_end_with_the_block() -> None:
    async with ProcessExecutor(workers=1) as executor:
        first = await executor.call(os.getpid)
        assert await executor.call(os.getpid) == first
        assert is_alive(first)
    assert not is_alive(first)
    # The executor is a value: it can be used again.
    assert await executor.call(os.getpid) != first
