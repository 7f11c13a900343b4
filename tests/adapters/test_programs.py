"""The program `mlir-opt`: where it is, what it reports, and how it fails."""

from pathlib import Path

import pytest

import apass
from apass.adapters.programs import MLIR_OPT, Answer, Message, Request, failure, messages, run_now, run_request
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, script


def test_variable_names_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script("exit 0", tmp_path / "my-opt")
    monkeypatch.setenv("APASS_MLIR_OPT", str(path))
    assert MLIR_OPT.find() == path
    monkeypatch.setenv("APASS_MLIR_OPT", "no-such-program")
    with pytest.raises(
        apass.errors.MissingExtraError, match="APASS_MLIR_OPT names 'no-such-program', which is not a program"
    ):
        MLIR_OPT.find()


def test_newest_versioned_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APASS_MLIR_OPT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("apass.adapters.programs._FOLDERS", (str(tmp_path / "lib"),))
    with pytest.raises(apass.errors.MissingExtraError, match="apt install mlir-22-tools"):
        MLIR_OPT.find()
    (tmp_path / "lib/llvm-100/bin").mkdir(parents=True)
    for name in ("mlir-opt-9", "mlir-opt-22", "mlir-opt-old"):
        script("exit 0", tmp_path / name)
    assert MLIR_OPT.find() == tmp_path / "mlir-opt-22"
    newest = script("exit 0", tmp_path / "lib/llvm-100/bin/mlir-opt")
    assert MLIR_OPT.find() == newest
    script("exit 0", tmp_path / "mlir-opt")
    assert MLIR_OPT.find() == tmp_path / "mlir-opt"
    runner = script("exit 0", tmp_path / "mlir-runner-22")
    assert MLIR_OPT.sibling(tmp_path / "mlir-opt-22", "mlir-runner") == runner
    assert MLIR_OPT.sibling(newest, "mlir-runner") is None


PRINTED = """\
printed by a pass
<stdin>:2:3: warning: unused
  oops
  ^
<stdin>:2:3: note: see current operation: x
  oops
  ^
loc(unknown): remark: seen
<unknown>:0: error: unable to schedule
"""


def test_messages_are_separated_from_other_text() -> None:
    found, others = messages(PRINTED)
    assert found == [
        Message("warning", "unused", 2, 3),
        Message("note", "see current operation: x", 2, 3),
        Message("remark", "seen", None, None),
        Message("error", "unable to schedule", None, None),
    ]
    assert others == "printed by a pass"


def test_failure_shows_first_error_with_its_line() -> None:
    request = Request(Path("/bin/mlir-opt"), (), b"module {\n  oops\n}")
    printed = "<stdin>:2:3: error: unknown\n  oops\n  ^\n<stdin>:1:1: note: in here\n"
    error = failure(Answer(b"", 1, printed), request, "")
    assert isinstance(error, apass.errors.AdapterError)
    assert str(error) == "mlir-opt: unknown\n  at <module>:2:3\n  oops\n  note: in here"
    assert str(failure(Answer(b"", 1, ""), request, "")) == "mlir-opt failed with exit status 1: it printed nothing"


def test_crash_shows_reason_and_functions() -> None:
    dump = "PLEASE submit a bug\nStack dump:\n0.\tProgram\n #0 0x00007f457acb8786 mlir::Pass::run(int) (/lib/x+0x3)\n"
    answer = Answer(b"", -11, "Assertion `a' failed.\n" + dump)
    error = failure(answer, Request(Path("/bin/mlir-opt"), (), b""), "")
    assert isinstance(error, apass.errors.HelperError)
    assert str(error) == "mlir-opt crashed (SIGSEGV)\n  Assertion `a' failed.\n  in mlir::Pass::run"
    assert "(SIGABRT)" in str(failure(Answer(b"", 134, ""), Request(Path("x"), (), b""), ""))


@pytest.mark.process
@pytest.mark.anyio
async def test_slow_process_is_killed(tmp_path: Path) -> None:
    # The limit is far below the sleep, and far above the time of a start.
    request = Request(script("sleep 600", tmp_path / "slow-opt"), (), b"", time_limit=0.3)
    with pytest.raises(apass.errors.HelperError, match=r"slow-opt took longer than its time limit, 0\.3 s"):
        await run_request(request)
    with pytest.raises(apass.errors.HelperError, match="took longer"):
        run_now(request)


@pytest.mark.process
@pytest.mark.anyio
async def test_program_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    request = Request(tmp_path, (), b"")
    with pytest.raises(apass.errors.AdapterError, match="cannot be started: Permission denied; set APASS_MLIR_OPT"):
        await run_request(request)
    with pytest.raises(apass.errors.AdapterError, match="cannot be started"):
        run_now(request)


@NEEDS_MLIR
@pytest.mark.process
def test_further_arguments_apply_to_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(MLIR_OPT.find(), (), b'"my.op"() : () -> ()')
    assert run_now(request).status == 1
    monkeypatch.setenv("APASS_MLIR_ARGS", "--allow-unregistered-dialect")
    assert b"my.op" in run_now(request).data
    assert run_now(Request(MLIR_OPT.find(), (), CALLS.encode())).status == 0
