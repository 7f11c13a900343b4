"""`apass debug`: wrong arguments, a missing library, and no terminal."""

from pathlib import Path

import anyio
import pytest

from apass.cli.debugger.main import make_session, run_debugger
from apass.cli.planning import Plan
from apass.core.context import PassContext
from apass.errors import InputError
from tests.helpers.command_line import apass, fresh_process


def test_pipe_in_place_of_terminal_is_an_error(model: Path) -> None:
    result = apass("debug", model)
    assert result.exit_code == 2
    assert result.stderr == (
        "apass: apass debug needs a terminal, but its input or output is a pipe or a file; "
        "in a program, use apass.instruments.PauseInstrument\n"
    )


def test_wrong_breakpoint_is_an_error(model: Path) -> None:
    result = apass("debug", model, "--break", "pas:Fold")
    assert result.exit_code == 2
    assert "unknown kind of breakpoint 'pas' in 'pas:Fold'; did you mean 'pass'?" in result.stderr


def test_trio_is_refused() -> None:
    session = make_session(Plan([], {}, {}), lambda _instruments: PassContext(), [], "run", writes=False)
    with pytest.raises(InputError, match="the debugger runs on asyncio only, because textual does; got trio"):
        anyio.run(run_debugger, session, backend="trio")


@pytest.mark.process
def test_missing_textual_names_extra(model: Path) -> None:
    status, out, err = fresh_process("debug", model, body="import sys; sys.modules['textual'] = None")
    assert (status, out) == (2, "")
    assert err.startswith("apass: the debugger needs textual (")
    assert err.endswith("): pip install 'apass[debug]'\n")


@pytest.mark.process
@pytest.mark.slow
def test_other_commands_do_not_import_textual(model: Path) -> None:
    body = "import atexit, sys; atexit.register(lambda: print('textual' in sys.modules))"
    assert fresh_process("plan", "-p", "FoldConstant", body=body)[1].endswith("False\n")
