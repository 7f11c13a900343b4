"""Workers that die, hang or are cancelled at their work: what becomes of the work, and of them."""

import os
import signal
import sys
from pathlib import Path
from statistics import median
from threading import Event
from time import perf_counter

import anyio
import anyio.to_thread
import pytest

from apass import PassContext, PassTimeoutError, WorkerLostError, function_pass
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.executors import work
from tests.executors.files import pid_in, written, written_in
from tests.executors.work import Module

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=2)
THREADS = ThreadExecutor(workers=2)
every_executor = pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_work_is_done_again_after_its_worker_died(tmp_path: Path) -> None:
    mod = {f"f{i}": "x" for i in range(20)} | {"deadly": str(tmp_path / "was here")}
    async with PassContext(executor=PROCESSES):
        assert await work.DieOnce(mod) == dict.fromkeys(mod, "done")


async def test_work_that_kills_two_workers_is_an_error_and_harms_no_other() -> None:
    mod = {"a": "x", "b": "deadly", "c": "y"}
    async with PassContext(executor=PROCESSES):
        with pytest.raises(
            WorkerLostError, match=r"body of pass 'DieAlways' lost two workers.*: its process died"
        ) as caught:
            await work.DieAlways(mod)
        assert caught.value.__notes__ == ["in pass 'DieAlways', function 'b'"]
        assert await work.DieAlwaysKept(mod) == {"a": "done", "b": "deadly", "c": "done"}


async def test_a_worker_that_somebody_kills_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    results: list[Module] = []
    pids: list[int] = []

    async def run() -> None:
        async with PassContext(executor=PROCESSES):
            results.append(await work.SayAndWait({"a": str(path)}))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        pids.append(await pid_in(path))
        # Emptied, and there all the time, as the body goes on when it is not.
        path.write_text("")
        os.kill(pids[0], signal.SIGKILL)
        pids.append(await pid_in(path))
        path.unlink()
    assert results == [{"a": "done"}]
    assert pids[0] != pids[1]


async def test_a_worker_that_hangs_is_ended_and_its_work_done_again(tmp_path: Path) -> None:
    executor = ProcessExecutor(workers=2, timeout=1.0)
    async with PassContext(executor=executor):
        assert await work.Hang({"a": str(tmp_path / "was here"), "b": "x"}) == {"a": "done", "b": "done"}


async def test_work_that_hangs_twice_is_an_error_that_says_where() -> None:
    executor = ProcessExecutor(workers=2, timeout=0.3)
    async with PassContext(executor=executor):
        with pytest.raises(WorkerLostError, match=r"lost two workers, .*: it took longer than 0\.3 s") as caught:
            await work.Hang({"a": "hang", "b": "x"})
    assert "work.py" in caught.value.__notes__[0]
    with pytest.raises(WorkerLostError, match="function 'hang' lost two workers"):
        await executor.call(work.hang)


async def test_a_body_over_its_own_time_fails_at_once_as_it_does_inline() -> None:
    async with PassContext(executor=PROCESSES) as ctx:
        with pytest.raises(PassTimeoutError, match=r"^the body of pass 'HangLimited' took longer than 0\.2 s"):
            await work.HangLimited({"a": "hang"})
        assert ctx.diag_ctx.diagnostics == ()


@every_executor
async def test_a_cancelled_run_begins_no_more_and_leaves_nobody_at_work(executor: Executor, tmp_path: Path) -> None:
    paths = [tmp_path / str(i) for i in range(8)]
    async with PassContext(executor=executor), anyio.create_task_group() as group:
        group.start_soon(work.SayAndWait, {path.name: str(path) for path in paths})
        while len(written(paths)) < 2:  # noqa: ASYNC110  it is another process that writes
            await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    pids = written(paths)
    assert len(pids) == 2
    assert [pid for pid in pids if int(pid) != os.getpid() and is_alive(int(pid))] == []


async def test_a_cancelled_run_waits_for_its_threads() -> None:
    begun, ended = Event(), list[bool]()

    def Slow(func: int, mod: Module, ctx: PassContext) -> int:
        begun.set()
        work.work_for(0.2)
        ended.append(True)
        return func

    async with anyio.create_task_group() as group:
        group.start_soon(function_pass(Slow, opt_level=0, executor=THREADS), {"a": 1})
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    assert ended == [True]


async def test_a_worker_that_is_nearly_done_survives_a_cancellation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("apass.executors.processes.CANCEL_GRACE", 60.0)
    paths, pids = [tmp_path / "a", tmp_path / "b"], list[int]()
    async with PassContext(executor=PROCESSES), anyio.create_task_group() as group:
        group.start_soon(work.SayAndWait, {path.name: str(path) for path in paths})
        pids += [await pid_in(path) for path in paths]
        group.cancel_scope.cancel()
        for path in paths:
            path.unlink()
    assert set(await PROCESSES.map(work.pid_after, [0.01] * 6)) <= set(pids)


async def test_a_failure_ends_the_bodies_at_work(tmp_path: Path) -> None:
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
path.write_text("begun")
while path.exists():
    before = time.perf_counter()
    time.sleep(0.002)
    gaps.append(time.perf_counter() - before)
print(median(gaps))
"""
"""A process that does nothing but sleep for two milliseconds and see how long that took, until its file is removed."""


async def test_the_loop_stays_responsive_while_both_processors_work(tmp_path: Path) -> None:
    bodies, beat = [str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "beat"
    gaps, others = list[float](), list[float]()

    async def beat_beside() -> None:
        done = await anyio.run_process([sys.executable, "-c", BEAT, str(beat)])
        others.append(float(done.stdout))

    async with anyio.create_task_group() as group:
        group.start_soon(PROCESSES.map, work.say_and_hold, bodies)
        group.start_soon(beat_beside)
        for path in [*map(Path, bodies), beat]:
            await written_in(path)
        # Held by the bodies, which stay until they are told, the loop would not come here at all.
        for _ in range(200):
            before = perf_counter()
            await anyio.sleep(0.002)
            gaps.append(perf_counter() - before)
        for path in [*map(Path, bodies), beat]:
            path.unlink()
    # Twenty milliseconds, unless the machine is so busy that any process which waits is woken as late.
    assert median(gaps) < max(0.02, 2 * others[0])


@every_executor
async def test_plain_functions_are_called_and_mapped(executor: Executor) -> None:
    assert await executor.call(work.double, 4) == 8
    assert await executor.map(work.double, range(500)) == [2 * i for i in range(500)]
    assert await executor.map(work.double, []) == []
    with pytest.raises(LookupError, match="three"):
        await executor.map(work.fail_at_three, range(10))
    with pytest.raises(LookupError, match="three"):
        await executor.call(work.fail_at_three, 3)


async def test_one_executor_serves_several_event_loops(anyio_backend: str) -> None:
    def elsewhere() -> list[int]:
        return anyio.run(PROCESSES.map, work.double, [1, 2], backend=anyio_backend)

    assert await anyio.to_thread.run_sync(elsewhere) == [2, 4]
