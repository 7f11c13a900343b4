"""The processes of `mlir-opt`: how many run, and that none remains."""

import os
from pathlib import Path

import anyio
import psutil
import pytest

import apass
from apass.adapters.mlir import MLIRModule, running
from apass.adapters.mlir.passes import MLIRPass
from apass.adapters.mlir.running import Step
from apass.adapters.program_pool import PROCESSES
from apass.adapters.programs import MLIR_OPT
from apass.stores import MemoryStore
from apass.testing import RecordingInstrument
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, many_functions, mlir_opt, script

pytestmark = [NEEDS_MLIR, pytest.mark.process, pytest.mark.anyio]


def counting(folder: Path, before: str = "") -> tuple[Path, Path]:
    """Return an `mlir-opt` that records its runs, and the file with a line for each."""
    log = folder / "runs"
    log.touch()
    return script(f'echo "$$" >> {log}\n{before}\nexec {MLIR_OPT.find()} "$@"', folder / "mlir-opt"), log


def passes(program: Path, *names: str) -> apass.Sequential[MLIRModule]:
    """Return passes of a program; a name after a slash is the anchor."""
    steps = [Step(*name.split("/")) for name in names]
    return apass.Sequential([MLIRPass(program, [step], apass.PassInfo(0, f"mlir.{step.text}"), "") for step in steps])


async def test_consecutive_passes_run_in_one_process(tmp_path: Path) -> None:
    program, log = counting(tmp_path)
    pipeline = passes(program, "canonicalize", "cse/func.func", "inline")
    result = await pipeline(MLIRModule(CALLS))
    assert len(log.read_text().split()) == 1
    async with apass.PassContext(instruments=[RecordingInstrument()]):
        assert await pipeline(MLIRModule(CALLS)) == result
    assert len(log.read_text().split()) == 4
    async with apass.PassContext(store=MemoryStore()):
        assert await pipeline(MLIRModule(CALLS)) == result
        assert await pipeline(MLIRModule(CALLS)) == result
    assert len(log.read_text().split()) == 7


async def test_functions_are_distributed_among_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CHUNK", 1000)
    monkeypatch.setattr(running, "PROCESSES", 3)
    program, log = counting(tmp_path)
    mod = many_functions(7)
    result = await passes(program, "canonicalize/func.func", "cse/func.func", "inline", "cse/func.func")(mod)
    assert result.text == mlir_opt(mod.text, "builtin.module(func.func(canonicalize,cse),inline,func.func(cse))")
    # After the first two passes, the module is too small for several processes.
    assert len(log.read_text().split()) == 3 + 1 + 1


async def test_functions_that_call_each_other_are_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CHUNK", 100)
    monkeypatch.setattr(running, "PROCESSES", 2)
    text = f'memref.global "private" constant @data : memref<2xi32> = dense<1>\n{CALLS}'
    result = await passes(MLIR_OPT.find(), "canonicalize/func.func")(MLIRModule(text))
    assert result.text == mlir_opt(text, "builtin.module(func.func(canonicalize))")


async def test_module_with_locations_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "CHUNK", 10)
    text = mlir_opt(CALLS, "builtin.module()", "--mlir-print-debuginfo").replace("<stdin>", "my.c")
    result = await passes(MLIR_OPT.find(), "canonicalize/func.func")(MLIRModule(text))
    assert '"my.c":7:8' in result.text


async def test_failed_passes_run_one_by_one(tmp_path: Path) -> None:
    program, log = counting(tmp_path)
    with pytest.raises(apass.errors.AdapterError) as caught:
        await passes(program, "cse", "test-pass-failure", "canonicalize")(MLIRModule(CALLS))
    assert caught.value.__notes__ == ["in pass 'sequential > mlir.test-pass-failure'"]
    assert len(log.read_text().split()) == 3


async def test_other_modules_go_on_after_a_crash(tmp_path: Path) -> None:
    # It crashes at one module, as a defect of a pass does.
    crash = 'input=$(cat)\ncase "$input" in *muli*) kill -SEGV $$ ;; esac\n'
    run = f'printf "%s" "$input" | {MLIR_OPT.find()} "$@"'
    program = script(crash + run, tmp_path / "mlir-opt")
    modules = {"good": MLIRModule(CALLS), "bad": MLIRModule(CALLS.replace("addi", "muli")), "last": many_functions(1)}
    outcomes = await apass.optimize_all(modules, passes(program, "cse", "canonicalize"), errors="collect")
    assert [name for name, outcome in outcomes.items() if outcome.error is None] == ["good", "last"]
    error = outcomes["bad"].error
    assert isinstance(error, apass.errors.HelperError)
    assert str(error) == "mlir-opt crashed (SIGSEGV)"


@pytest.mark.both_loops
async def test_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    program, log = counting(tmp_path, before="sleep 600 &\nwait\n")
    with anyio.move_on_after(20) as scope:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(passes(program, "cse"), MLIRModule(CALLS))
            while len(log.read_text().split()) < min(2, PROCESSES):  # noqa: ASYNC110  it waits for other processes
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    groups = set(map(int, log.read_text().split()))
    with anyio.fail_after(20):
        # The kernel may end a killed process a moment later.
        while any(_group(process) in groups for process in psutil.process_iter()):  # noqa: ASYNC110  no event for that
            await anyio.sleep(0.01)


def _group(process: psutil.Process) -> int | None:
    """Return the process group of a process that has not ended."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getpgid(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


@pytest.mark.both_loops
async def test_deadline_ends_the_process(tmp_path: Path) -> None:
    program, _ = counting(tmp_path, before="sleep 600")
    with pytest.raises(apass.errors.BudgetExceededError):
        async with apass.PassContext(deadline=0.3):
            await passes(program, "cse")(MLIRModule(CALLS))


async def test_loop_runs_while_the_process_does(tmp_path: Path) -> None:
    released = tmp_path / "released"
    program, _ = counting(tmp_path, before=f"while [ ! -e {released} ]; do sleep 0.01; done")
    async with anyio.create_task_group() as group:
        group.start_soon(passes(program, "cse"), MLIRModule(CALLS))
        # The process ends only because the event loop goes on.
        await anyio.Path(released).touch()


async def test_printed_text_is_a_note() -> None:
    async with apass.PassContext() as ctx:
        await apass.get_pass("mlir.print-op-stats")(MLIRModule(CALLS))
        (diagnostic,) = ctx.diag_ctx.diagnostics
    assert diagnostic.level is apass.DiagnosticLevel.NOTE
    assert "Operations encountered" in diagnostic.message
