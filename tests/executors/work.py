"""Passes and functions that the tests send to workers; importable without pytest."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from apass import (
    Diagnostic,
    FunctionPass,
    PassContext,
    PassInfo,
    current_run,
    function_pass,
    module_pass,
    register_config_option,
    register_pass,
)
from apass.core.remarks import Remark
from apass.executors import check_cancelled

Module = dict[str, Any]

register_config_option("tests.executors.step", int, default=1)
SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


@function_pass(opt_level=0)
def Increment(func: int, mod: Module, ctx: PassContext) -> int:
    step: int = ctx.config["tests.executors.step"]
    return func + step


@function_pass(opt_level=0)
def IncrementEven(func: int, mod: Module, ctx: PassContext) -> int:
    return func + 1 if func % 2 == 0 else func


@function_pass(opt_level=0)
def Location(func: Any, mod: Module, ctx: PassContext) -> list[Any]:
    run = current_run()
    assert run is not None
    return [os.getpid(), threading.get_ident(), run.function, run.module, list(run.path), sorted(mod), ctx.opt_level]


@function_pass(opt_level=0)
def ReturnPreviousValue(func: str, mod: Module, ctx: PassContext) -> str:
    before = SEEN.get()
    SEEN.set(func)
    return before


@register_pass
@function_pass(opt_level=0)
class Scale:
    """A pass with an option."""

    def __init__(self, by: int = 2) -> None:
        self.by = by

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func * self.by


class Shift(FunctionPass[Module, int]):
    """A pass defined by subclassing, with a field."""

    info = PassInfo(opt_level=0, name="Shift")

    def __init__(self, by: int) -> None:
        self.by = by

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func + self.by


def _make_shift(by: int = 1) -> FunctionPass[Module, int]:
    @function_pass(opt_level=0, name="ByFactory")
    def work(func: int, mod: Module, ctx: PassContext) -> int:
        return func + by

    return work


register_pass("tests.ByFactory", _make_shift)


class OddError(Exception):
    """An error that pickle cannot rebuild: its `__init__` takes more than `args`."""

    def __init__(self, subject: str, *, hint: str) -> None:
        super().__init__(f"{subject}: {hint}")


@function_pass(opt_level=0)
def Fail(func: str, mod: Module, ctx: PassContext) -> str:
    if func == "fine":
        return "done"
    error: Exception = OddError(func, hint="no") if func == "odd" else LookupError(func)
    error.add_note(f"about {func}")
    raise error


@function_pass(opt_level=0)
def Unsendable(func: str, mod: Module, ctx: PassContext) -> Any:
    return (lambda: func) if func == "bad" else func.upper()


@function_pass(opt_level=0)
def Nothing(func: str, mod: Module, ctx: PassContext) -> Any:
    return None


async def _later(func: Any) -> Any:
    return func


@function_pass(opt_level=0)
def ReturnsCoroutine(func: Any, mod: Module, ctx: PassContext) -> Any:
    return _later(func)


@function_pass(opt_level=0)
def Report(func: str, mod: Module, ctx: PassContext) -> str:
    ctx.diag_ctx.emit(Diagnostic.warning(f"saw {func}"))
    ctx.statistic("seen", 2)
    ctx.remark(Remark.passed("Seen", f"saw {func}", times=2))
    return func


def _is_first_call(path: str) -> bool:
    """Create a file, and return whether it was missing."""
    try:
        Path(path).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@function_pass(opt_level=0)
def DieOnce(func: str, mod: Module, ctx: PassContext) -> str:
    if func.startswith("/") and _is_first_call(func):
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


@function_pass(opt_level=0)
def DieAlways(func: str, mod: Module, ctx: PassContext) -> str:
    if func == "deadly":
        os._exit(3)
    return "done"


@function_pass(opt_level=0, on_error="keep")
def DieAlwaysKept(func: str, mod: Module, ctx: PassContext) -> str:
    if func == "deadly":
        os._exit(3)
    return "done"


@function_pass(opt_level=0, timeout=0.2)
def HangLimited(func: str, mod: Module, ctx: PassContext) -> str:
    time.sleep(600)
    return func


@function_pass(opt_level=0)
def WaitOrFail(func: str, mod: Module, ctx: PassContext) -> str:
    """Fail after the other body has written its process id; that body never ends."""
    if func.startswith("fail"):
        path = Path(func.split()[2])
        while not (path.exists() and path.read_text()):
            time.sleep(0.01)
        raise LookupError(func)
    Path(func).write_text(str(os.getpid()))
    time.sleep(600)
    return func


@function_pass(opt_level=0, executor="process")
def ProcessIdInProcess(func: int, mod: Module, ctx: PassContext) -> int:
    return os.getpid()


@function_pass(opt_level=0)
def Hang(func: str, mod: Module, ctx: PassContext) -> str:
    if func == "hang" or (func.startswith("/") and _is_first_call(func)):
        time.sleep(600)
    return "done"


@function_pass(opt_level=0)
def WaitOnce(func: str, mod: Module, ctx: PassContext) -> str:
    """If `func` is a missing file, write the process id to it, and sleep."""
    if func.startswith("/") and _is_first_call(func):
        Path(func).write_text(str(os.getpid()))
        time.sleep(600)
    return "done"


@function_pass(opt_level=0)
def RecordAndWait(func: str, mod: Module, ctx: PassContext) -> str:
    """Write the process id to the file `func`, and wait until the file is removed."""
    Path(func).write_text(str(os.getpid()))
    while Path(func).exists():
        check_cancelled()
        time.sleep(0.01)
    return "done"


@module_pass(opt_level=0)
async def AddSum(mod: Module, ctx: PassContext) -> Module:
    await checkpoint()
    ctx.diag_ctx.warning("summed")
    return {**mod, "sum": sum(mod.values())}


@module_pass(opt_level=0)
async def FailWhole(mod: Module, ctx: PassContext) -> Module:
    await checkpoint()
    raise LookupError("whole")


@module_pass(opt_level=0)
async def WaitForever(mod: Module, ctx: PassContext) -> Module:
    await anyio.sleep_forever()
    return mod


@module_pass(opt_level=0)
async def Keep(mod: Module, ctx: PassContext) -> Module:
    await checkpoint()
    return mod


def double(value: int) -> int:
    """Return twice the value."""
    return 2 * value


def fail_at_three(value: int) -> int:
    """Fail for 3."""
    if value == 3:
        raise LookupError("three")
    return value


def work_for(seconds: float) -> float:
    """Keep a CPU busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return seconds


def record_and_spin(path: str) -> None:
    """Write the process id to a file, and keep a CPU busy until the file is removed."""
    Path(path).write_text(str(os.getpid()))
    end = time.perf_counter() + 300
    while Path(path).exists():
        work_for(0.01)
        if time.perf_counter() > end:
            raise TimeoutError(path)


def record_start_and_end(path: str) -> None:
    """Write to a file that the call has started, and later that it has ended."""
    Path(path).write_text("begun")
    time.sleep(0.3)
    Path(path).write_text("ended")


def crash() -> None:
    ctypes.string_at(0)


def hang() -> None:
    """Sleep for much longer than any time limit."""
    time.sleep(600)


def pid_after(seconds: float) -> int:
    """Sleep, and return the process id."""
    time.sleep(seconds)
    return os.getpid()


@function_pass(opt_level=0)
def StopOnce(func: str, mod: Module, ctx: PassContext) -> str:
    """If `func` is a missing file, create it, and stop the process as a debugger does."""
    if func.startswith("/") and _is_first_call(func):
        os.kill(os.getpid(), signal.SIGSTOP)
    return "done"


def send_twice(send: Callable[[bytes], object]) -> str:
    """Send two messages to the parent."""
    send(b"one")
    send(b"two")
    return "sent"


@module_pass(opt_level=0)
def Break(mod: Module, ctx: PassContext) -> Module:
    """Return an invalid module."""
    return {**mod, "a": None}


@module_pass(opt_level=0)
def Dishonest(mod: Module, ctx: PassContext) -> Module:
    """Change the input in place."""
    mod["a"] = 2
    return mod


class SlowToLoad:
    """An argument that a worker needs five seconds to read."""

    def __reduce__(self) -> Any:
        return pid_after, (5.0,)


@module_pass(opt_level=0)
def Exit(mod: Module, ctx: PassContext) -> Module:
    sys.exit(3)


@module_pass(opt_level=0, cacheable=True)
def DoubleAll(mod: Module, ctx: PassContext) -> Module:
    ctx.diag_ctx.warning("doubled")
    return {name: 2 * func for name, func in mod.items()}


class Together(FunctionPass[Module, Any]):
    """Returns the names of the functions that were expected with each one."""

    info = PassInfo(0, "tests.executors.Together")

    def __init__(self) -> None:
        self.expected: list[str] = []

    def expect_functions(self, names: Sequence[str], mod: Module, ctx: PassContext) -> None:
        self.expected = list(names)

    def transform_function(self, func: Any, mod: Module, ctx: PassContext) -> list[str]:
        return self.expected


@function_pass(opt_level=0)
def Allocate(func: str, mod: Module, ctx: PassContext) -> str:
    """Use 600 MB in a program that writes its id to `func`, unless that is "x"."""
    if func != "x":
        code = "import os, pathlib, sys, time; data = b'x' * 600_000_000; pathlib.Path(sys.argv[1]).write_text("
        subprocess.run([sys.executable, "-c", f"{code}str(os.getpid())); time.sleep(3600)", func], check=False)
    return "done"
