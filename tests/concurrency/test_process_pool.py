"""Worker processes are reused, killed on cancellation, and never leaked."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import anyio
import psutil
import pytest

from apass.concurrency.processes.command import complete_process
from apass.concurrency.processes.pool import WorkerStartError, run_in_worker

pytestmark = [pytest.mark.anyio, pytest.mark.process]


def children() -> set[int]:
    """Return the ids of the running child processes."""
    return {child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE}


async def test_idle_process_is_reused() -> None:
    first = await run_in_worker(os.getpid)
    assert [await run_in_worker(os.getpid) for _ in range(3)] == [first] * 3
    assert first != os.getpid()


async def test_process_cancelled_at_its_start_is_killed() -> None:
    before = children()
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_worker, time.sleep, 600)
        while len(children() - before) < 1:
            await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert children() == before


async def test_cancelled_caller_starts_no_process() -> None:
    before = children()
    with anyio.move_on_after(0) as scope:
        await run_in_worker(time.sleep, 600)
    assert scope.cancelled_caught
    assert children() == before


async def test_process_cancelled_during_a_call_is_killed() -> None:
    pid = await run_in_worker(os.getpid)
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_worker, time.sleep, 600)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert pid not in children()
    assert await run_in_worker(os.getpid) != pid


async def test_error_of_the_function_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_worker(divmod, 1, 0)


async def test_process_that_exits_raises_and_is_replaced() -> None:
    with pytest.raises(anyio.BrokenWorkerProcess):
        await run_in_worker(os._exit, 3)
    assert await run_in_worker(abs, -3) == 3


async def test_error_says_how_the_process_died() -> None:
    with pytest.raises(anyio.BrokenWorkerProcess, match=r"^the worker process died \(SIGSEGV\)$"):
        await run_in_worker(signal.raise_signal, signal.SIGSEGV)
    with pytest.raises(anyio.BrokenWorkerProcess, match=r"^the worker process died \(exit status 3\)$"):
        await run_in_worker(os._exit, 3)


async def test_result_that_cannot_be_pickled_raises() -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        await run_in_worker(threading.Lock)
    assert await run_in_worker(abs, -3) == 3


async def test_function_prints_to_standard_error_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert await run_in_worker(os.read, 0, 10) == b""
    assert await run_in_worker(os.write, 1, b"output of C\n") == 12
    assert await run_in_worker(os.write, 2, b"error of C\n") == 11
    await run_in_worker(print, "of Python")
    assert capfd.readouterr() == ("", "output of C\nerror of C\nof Python\n")


def test_worker_starts_without_standard_error(anyio_backend: str, tmp_path: Path) -> None:
    program = """
import os, sys, anyio
from apass.concurrency.processes.pool import run_in_worker
if __name__ == "__main__":
    os.close(2)
    print(anyio.run(run_in_worker, print, "lost", backend=sys.argv[1]))
"""
    assert output_of(tmp_path, {"main.py": program}, "main.py", anyio_backend) == (0, "None\n", "")


def test_workers_end_with_their_event_loop(anyio_backend: str) -> None:
    before = children()
    pid = anyio.run(run_in_worker, os.getpid, backend=anyio_backend)
    assert pid != os.getpid()
    assert children() == before


async def test_process_idle_for_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.concurrency.processes.pool.IDLE_SECONDS", -1.0)
    pid = await run_in_worker(os.getpid)
    assert await run_in_worker(os.getpid) != pid
    assert pid not in children()


def start_a_child() -> int:
    """Start a process that runs for ten minutes, and return its id."""
    return subprocess.Popen(["sleep", "600"]).pid


def run_a_program(note: Path) -> None:
    """Run a program for ten minutes, as passes do, after writing its id to a file."""
    anyio.run(complete_process, ["sh", "-c", f"echo $$ > {note}.part; mv {note}.part {note}; exec sleep 600"])


def wait_for_end(pid: int) -> None:
    """Wait until a process has ended."""
    # The process has been sent a kill signal, but may take a moment to end.
    for _ in range(6000):
        if has_ended(pid):
            return
        time.sleep(0.01)
    pytest.fail("the process is still running after a minute")


def test_children_of_a_worker_end_with_it(anyio_backend: str) -> None:
    wait_for_end(anyio.run(run_in_worker, start_a_child, backend=anyio_backend))


async def test_program_of_a_cancelled_worker_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_worker, run_a_program, note)
        while not note.exists():
            await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    wait_for_end(int(note.read_text()))


ABANDONED = """
import os, sys, time
from pathlib import Path
import anyio
from apass.concurrency.processes.pool import run_in_worker

def work(note):
    Path(note).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    anyio.run(run_in_worker, work, sys.argv[2], backend=sys.argv[1])
"""


@pytest.mark.slow
def test_worker_ends_when_its_parent_is_killed(anyio_backend: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(ABANDONED)
    note = tmp_path / "pid"
    main = subprocess.Popen([sys.executable, str(tmp_path / "main.py"), anyio_backend, str(note)])
    while not (note.exists() and note.read_text()):
        assert main.poll() is None
        time.sleep(0.01)
    main.kill()
    main.wait()
    wait_for_end(int(note.read_text()))


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, even if its new parent has not reaped it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


SLOW_MACHINE = """
import os, sys, time
import anyio
from apass.concurrency.processes.pool import run_in_worker

kill, waitpid = os.kill, os.waitpid

def kill_and_pause(pid, number):
    kill(pid, number)
    time.sleep(0.2)

def pause_and_wait(pid, options):
    while not options:
        time.sleep(0.5)
        found = waitpid(pid, os.WNOHANG)
        if found[0]:
            return found
    return waitpid(pid, options)

os.kill, os.waitpid = kill_and_pause, pause_and_wait
if __name__ == "__main__":
    print(anyio.run(run_in_worker, abs, -3, backend=sys.argv[1]))
"""
"""A program whose threads that wait for child processes, if any, are slower than its event loop."""


@pytest.mark.slow
def test_end_of_the_loop_prints_nothing(anyio_backend: str, tmp_path: Path) -> None:
    assert output_of(tmp_path, {"main.py": SLOW_MACHINE}, "main.py", anyio_backend) == (0, "3\n", "")


def output_of(folder: Path, files: dict[str, str], *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Run a program made of these files; return its exit status, output and errors."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environ, input=stdin, capture_output=True, text=True, check=False
    )
    return result.returncode, result.stdout, result.stderr


PACKAGE = {
    "package/__init__.py": "",
    "package/double.py": "def double(value):\n    return 2 * value\n",
    "package/__main__.py": """
import sys
import anyio
from apass.concurrency.processes.pool import run_in_worker
from .double import double

def twice(value):
    return double(double(value))

if __name__ == "__main__":
    print(anyio.run(run_in_worker, twice, 3, backend=sys.argv[1]))
""",
}


@pytest.mark.parametrize("main", ["package", "package.__main__"])
def test_functions_of_a_main_module_can_be_called(main: str, anyio_backend: str, tmp_path: Path) -> None:
    assert output_of(tmp_path, PACKAGE, "-m", main, anyio_backend) == (0, "12\n", "")


@pytest.mark.slow
def test_main_module_without_guard_raises(anyio_backend: str, tmp_path: Path) -> None:
    main = SLOW_MACHINE.replace('if __name__ == "__main__":', "if True:")
    status, printed, error = output_of(tmp_path, {"main.py": main}, "main.py", anyio_backend)
    assert (status, printed) == (1, "")
    assert "RuntimeError: the program's main module starts worker processes when it is imported" in error
    assert error.splitlines()[-1] == f"{WorkerStartError.__module__}.WorkerStartError: a worker process could not start"


@pytest.mark.slow
def test_program_from_standard_input_can_use_workers(anyio_backend: str, tmp_path: Path) -> None:
    assert output_of(tmp_path, {}, "-", anyio_backend, stdin=SLOW_MACHINE) == (0, "3\n", "")


EXITS = """
import os, sys
import anyio
from apass.concurrency.processes.pool import run_in_worker

if __name__ == "__main__":
    print(anyio.run(run_in_worker, abs, -3, backend=sys.argv[1]))
else:
    EXIT
"""
"""A program that exits when it is imported."""


def test_main_module_that_exits_on_import_raises(anyio_backend: str, tmp_path: Path) -> None:
    files = {"main.py": EXITS.replace("EXIT", "sys.exit(3)")}
    status, _, error = output_of(tmp_path, files, "main.py", anyio_backend)
    assert (status, error.splitlines()[-1]) == (
        1,
        f"{WorkerStartError.__module__}.WorkerStartError: a worker process could not start",
    )
    assert "RuntimeError: the program's main module exits with 3 when it is imported" in error


ERROR = """
class OwnError(Exception):
    def __init__(self, code):
        super().__init__(f"code {code.real}")

raise OwnError(3)
"""


def test_error_of_main_module_crosses_as_text(anyio_backend: str, tmp_path: Path) -> None:
    lines = ERROR.replace("\n", "\n    ")
    status, _, error = output_of(tmp_path, {"main.py": EXITS.replace("EXIT", lines)}, "main.py", anyio_backend)
    assert (status, "RuntimeError: OwnError: code 3\n" in error) == (1, True)


def test_process_that_dies_on_start_raises(anyio_backend: str, tmp_path: Path) -> None:
    files = {"main.py": EXITS.replace("EXIT", "os._exit(3)")}
    status, _, error = output_of(tmp_path, files, "main.py", anyio_backend)
    assert (status, error.splitlines()[-1]) == (1, "anyio.BrokenWorkerProcess: the worker process died (exit status 3)")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="it kills the worker")
def test_output_of_a_call_survives_its_worker(tmp_path: Path) -> None:
    program = """
import os, signal, sys
import anyio
from apass.concurrency.processes.pool import run_in_worker

def work():
    sys.stdout.write("no new line")
    sys.stderr.buffer.write(b" and bytes")
    return os.getpid()

async def main():
    os.kill(await run_in_worker(work), signal.SIGKILL)

if __name__ == "__main__":
    anyio.run(main)
"""
    path = tmp_path / "program.py"
    path.write_text(program)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, env=buffered)
    assert (done.stdout, done.stderr) == ("", "no new line and bytes")
