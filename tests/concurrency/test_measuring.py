"""One measurement at a time, in the loop and on the machine, pinned to a core."""

import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import gettempdir
from typing import Any

import anyio
import psutil
import pytest
from anyio.abc import TaskGroup

from apass.concurrency.measuring import Measurement, MeasurementLane
from apass.concurrency.processes.affinity import last_core
from apass.concurrency.processes.pool import run_in_worker
from apass.errors import HelperError, MeasurementError
from apass.util.file_locks import lock_unless_taken
from tests.helpers.measured_runs import affinity, fail_pinned, holding, keep_a_thread, note_and_sleep

pytestmark = pytest.mark.anyio

needs_cores = pytest.mark.skipif(last_core() is None, reason="threads cannot be pinned to one of several cores")


@pytest.fixture
def lane(tmp_path: Path) -> MeasurementLane:
    """Return a lane that no other test uses."""
    return MeasurementLane(tmp_path / "lane" / "lock")


def assert_free(lane: MeasurementLane) -> None:
    """Assert that no process holds a lane."""
    held = lock_unless_taken(lane.lock)
    assert held is not None
    os.close(held)


class Visitors:
    """Tasks that enter a lane, each for as long as its event is not set."""

    def __init__(self, lane: MeasurementLane, group: TaskGroup) -> None:
        self.lane = lane
        self.group = group
        self.entered: list[str] = []
        self.inside = anyio.Event()
        """Set when the next visitor enters."""
        self.scopes: dict[str, anyio.CancelScope] = {}

    async def queue(self, name: str, leave: anyio.Event) -> None:
        """Start a task that enters the lane, and wait until it is inside or queued."""
        self.group.start_soon(self._visit, name, leave)
        await anyio.wait_all_tasks_blocked()

    async def _visit(self, name: str, leave: anyio.Event) -> None:
        with anyio.CancelScope() as self.scopes[name]:
            async with self.lane.measuring():
                self.entered.append(name)
                self.inside.set()
                await leave.wait()


@asynccontextmanager
async def visitors(lane: MeasurementLane) -> AsyncGenerator[Visitors]:
    """Yield visitors, and end those that are left."""
    async with anyio.create_task_group() as group:
        yield Visitors(lane, group)
        group.cancel_scope.cancel()


async def test_tasks_get_the_lane_in_order(lane: MeasurementLane) -> None:
    async with visitors(lane) as tasks:
        leaves = {name: anyio.Event() for name in "abc"}
        for name, leave in leaves.items():
            await tasks.queue(name, leave)
        for entered in ("a", "ab", "abc"):
            assert "".join(tasks.entered) == entered
            leaves[entered[-1]].set()
            await anyio.wait_all_tasks_blocked()


async def test_cancelled_task_leaves_the_queue(lane: MeasurementLane) -> None:
    async with visitors(lane) as tasks:
        leave = anyio.Event()
        for name in "abc":
            await tasks.queue(name, leave)
        tasks.scopes["b"].cancel()
        await anyio.wait_all_tasks_blocked()
        assert tasks.entered == ["a"]
        leave.set()
        await anyio.wait_all_tasks_blocked()
        assert tasks.entered == ["a", "c"]


async def test_failed_block_frees_the_lane(lane: MeasurementLane) -> None:
    with pytest.raises(OSError, match="failed"):
        async with lane.measuring():
            raise OSError("failed")
    async with MeasurementLane(lane.lock).measuring():
        assert lock_unless_taken(lane.lock) is None


async def test_lanes_of_other_files_are_independent(lane: MeasurementLane) -> None:
    async with visitors(lane) as tasks:
        await tasks.queue("a", anyio.Event())
        async with MeasurementLane(lane.lock.with_name("other")).measuring():
            assert tasks.entered == ["a"]


@pytest.mark.process
async def test_killed_process_frees_the_lane(lane: MeasurementLane) -> None:
    async with visitors(lane) as tasks:
        with holding(lane.lock) as holder:
            await tasks.queue("a", anyio.Event())
            assert tasks.entered == []
            holder.kill()
            await tasks.inside.wait()
    assert tasks.entered == ["a"]


@pytest.mark.process
async def test_wait_for_a_process_can_be_cancelled(lane: MeasurementLane) -> None:
    async with visitors(lane) as tasks:
        with holding(lane.lock) as holder:
            for name in "ab":
                await tasks.queue(name, anyio.Event())
            # The first task is the next one of the machine, and the second one waits for it in this loop.
            assert lock_unless_taken(lane.lock.with_name("lock.next")) is None
            tasks.scopes["a"].cancel()
            holder.kill()
            await tasks.inside.wait()
    assert tasks.entered == ["b"]


WRITER = """
import sys
from pathlib import Path
import anyio
from apass.concurrency.measuring import MeasurementLane

async def main(lock, log, name):
    for _ in range(10):
        async with MeasurementLane(Path(lock), None).measuring():
            for word in ("enter", "leave"):
                with open(log, "a") as file:
                    file.write(f"{word} {name}\\n")
                await anyio.lowlevel.checkpoint()

anyio.run(main, *sys.argv[1:4], backend=sys.argv[4])
"""


@pytest.mark.process
def test_processes_measure_one_at_a_time(lane: MeasurementLane, tmp_path: Path, backend: str) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", WRITER, str(lane.lock), str(log)]
    programs = [Popen([*command, name, backend], stderr=PIPE, text=True) for name in "ab"]
    assert [program.communicate()[1] for program in programs] == ["", ""]
    lines = log.read_text().splitlines()
    assert lines[1::2] == [line.replace("enter", "leave") for line in lines[::2]]
    assert sorted(lines[::2]) == ["enter a"] * 10 + ["enter b"] * 10


FORKING = """
import os, sys
from pathlib import Path
import anyio
from apass.concurrency.measuring import MeasurementLane

async def main():
    async with MeasurementLane(Path(sys.argv[1]), None).measuring():
        reader, writer = os.pipe()
        if os.fork():
            os.read(reader, 1)
        else:
            os.write(writer, b"1")
            sys.stdin.read()
        os._exit(0)

anyio.run(main)
"""


@pytest.mark.process
def test_forked_process_does_not_keep_the_lane(lane: MeasurementLane) -> None:
    with Popen([sys.executable, "-c", FORKING, lane.lock], stdin=PIPE) as parent:
        parent.wait()
        # The forked process runs until its input ends.
        assert_free(lane)


async def test_unusable_lock_file_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    reason = "Is a directory; let APASS_MEASURING_LOCK name a file that this process can write"
    with pytest.raises(MeasurementError, match=f"^the measurement lane cannot lock .*/folder: {reason}$"):
        await MeasurementLane(folder).measuring().__aenter__()


async def test_lock_file_is_chosen_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_MEASURING_LOCK", str(tmp_path / "chosen"))
    assert MeasurementLane().lock == tmp_path / "chosen"
    monkeypatch.delenv("APASS_MEASURING_LOCK")
    assert MeasurementLane().lock == Path(gettempdir(), f"apass-{os.getuid()}", "measuring.lock")


def test_wrong_lanes_raise() -> None:
    lock: Any = "lock"
    with pytest.raises(TypeError, match=r"^the lock file must be of type Path, got 'lock'$"):
        MeasurementLane(lock)


@needs_cores
@pytest.mark.process
async def test_missing_core_is_an_error(lane: MeasurementLane) -> None:
    before = await run_in_worker(affinity)
    async with MeasurementLane(lane.lock, core=4000).measuring() as measurement:
        with pytest.raises(MeasurementError, match=r"^threads cannot be pinned to core 4000: Invalid argument; choose"):
            await measurement.call(abs, -1)
    assert await run_in_worker(affinity) == before


async def test_nested_measurement_is_an_error(lane: MeasurementLane) -> None:
    errors: list[str] = []

    async def measure() -> None:
        with pytest.raises(MeasurementError) as caught:
            await lane.measuring().__aenter__()
        errors.append(str(caught.value))

    async with lane.measuring():
        await measure()
        # A task that the block starts and awaits would wait forever.
        async with anyio.create_task_group() as group:
            group.start_soon(measure)
    assert errors == ["this task measures already; use its measurement, or leave the block first"] * 2


async def test_task_that_outlives_the_block_may_measure(lane: MeasurementLane) -> None:
    left = anyio.Event()

    async def measure_later() -> None:
        await left.wait()
        async with lane.measuring():
            pass

    async with anyio.create_task_group() as group:
        async with lane.measuring() as measurement:
            group.start_soon(measure_later)
        left.set()
        with pytest.raises(MeasurementError, match="the measurement is over"):
            await measurement.call(abs, -1)


@needs_cores
@pytest.mark.process
async def test_call_is_pinned_and_the_worker_restored(lane: MeasurementLane) -> None:
    before = await run_in_worker(affinity)
    pid = await run_in_worker(os.getpid)
    async with lane.measuring() as measurement:
        core = measurement.core
        assert core == last_core()
        assert await measurement.call(affinity) == {core}
        assert await run_in_worker(affinity) == before
        with pytest.raises(OSError, match=rf"^\[{core}\]$"):
            await measurement.call(fail_pinned)
        assert await measurement.call(keep_a_thread) == {core}
    assert (await run_in_worker(affinity), await run_in_worker(os.getpid)) == (before, pid)
    threads = psutil.Process(pid).threads()
    assert {frozenset(os.sched_getaffinity(thread.id)) for thread in threads} == {before}


@needs_cores
@pytest.mark.process
async def test_program_is_pinned_from_its_start(lane: MeasurementLane) -> None:
    code = "import os, sys; print(*os.environ); print(os.sched_getaffinity(0), input(), file=sys.stderr)"
    async with lane.measuring() as measurement:
        done = await measurement.run([sys.executable, "-c", code], b"text", env={"LC_ALL": "C"})
        assert done.stderr.decode() == f"{{{measurement.core}}} text\n"
        assert (await measurement.run(["pwd"], cwd="/")).stdout == b"/\n"
    assert done.stdout == b"LC_ALL\n"
    assert done.seconds > 0
    assert await run_in_worker(affinity) != {measurement.core}


@pytest.mark.process
async def test_failed_program_has_no_time(lane: MeasurementLane) -> None:
    async with lane.measuring() as measurement:
        code = "import sys; sys.exit('wrong')"
        with pytest.raises(HelperError, match=r"exited with status 1; the end of its standard error:\nwrong$"):
            await measurement.run([sys.executable, "-c", code])
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            await measurement.run(["no-such-program"])
        with pytest.raises(TypeError, match="a command must be a list"):
            await measurement.run("ls")
    assert not measurement.was_cancelled


@pytest.mark.process
async def test_cancelled_program_is_killed(lane: MeasurementLane, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {note}.part; mv {note}.part {note}; exec sleep 600"]
    async with lane.measuring() as measurement:
        async with anyio.create_task_group() as group:
            group.start_soon(measurement.run, command)
            while not note.exists():
                await anyio.wait_all_tasks_blocked()
            assert not measurement.was_cancelled
            group.cancel_scope.cancel()
        assert measurement.was_cancelled
    # It has been sent a signal, but may take a moment to end.
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(note.read_text())).wait(60)


@pytest.mark.process
async def test_cancelled_call_frees_the_lane(lane: MeasurementLane, tmp_path: Path) -> None:
    note = tmp_path / "pid"

    async def measure() -> None:
        async with lane.measuring() as measurement:
            await measurement.call(note_and_sleep, note)

    async with anyio.create_task_group() as group:
        group.start_soon(measure)
        while not note.exists():
            await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert not psutil.pid_exists(int(note.read_text()))
    assert_free(lane)


@pytest.mark.process
async def test_runs_of_a_measurement_take_turns(lane: MeasurementLane) -> None:
    times: list[tuple[float, float]] = []

    async def call(measurement: Measurement) -> None:
        times.append(await measurement.call(begin_and_end))

    async with lane.measuring() as measurement, anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(call, measurement)
    ordered = sorted(times)
    assert all(end <= start for (_, end), (start, _) in pairwise(ordered))


def begin_and_end() -> tuple[float, float]:
    start = time.monotonic()
    sum(range(100_000))
    return start, time.monotonic()


async def test_compared_runs_alternate(lane: MeasurementLane) -> None:
    order: list[str] = []

    async def baseline() -> float:
        order.append("baseline")
        return 2.0

    async def candidate() -> float:
        await anyio.lowlevel.checkpoint()
        order.append("candidate")
        return 1.0

    async with lane.measuring() as measurement:
        times = await measurement.compare(baseline, candidate)
        assert (times.verdict, times.ratio, times.rounds) == ("faster", 0.5, 6)
        assert (await measurement.compare(baseline, candidate, width=0, most=3)).rounds == 3
    assert order == ["baseline", "candidate", "candidate", "baseline"] * 3 + [
        *("baseline", "candidate", "candidate", "baseline", "baseline", "candidate")
    ]


@needs_cores
async def test_reserved_core_is_the_core_of_the_lane(lane: MeasurementLane) -> None:
    before = affinity()
    with lane.reserved():
        assert affinity() == before - {lane.core}
        assert MeasurementLane(lane.lock) == lane
    assert affinity() == before
