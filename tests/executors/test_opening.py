"""`open` of passes whose bodies, or which as a whole, run in executors."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from apass import ModulePass, PassContext, Sequential, optimize_all
from tests.executors.opening import (
    InProcess,
    InThread,
    LaterInProcess,
    LaterInThread,
    LogFunctions,
    LogModule,
    LogModuleLater,
    Module,
    lines_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.process]

OWN = str(os.getpid())
Name = Literal["thread", "process", "interpreter"]
every_executor = pytest.mark.parametrize(
    "executor",
    [
        "thread",
        "process",
        pytest.param(
            "interpreter",
            marks=pytest.mark.skipif(
                sys.version_info < (3, 13), reason="the interpreter executor requires Python 3.13"
            ),
        ),
    ],
)


def assert_balanced(lines: Sequence[str], events: Sequence[str]) -> None:
    """Assert that all events were written while a log was open, and each log closed."""
    depths: dict[str, int] = {}
    seen: list[str] = []
    for line in lines:
        pid, event = line.split(" ", 1)
        depths[pid] = depths.get(pid, 0) + {"open": 1, "close": -1}.get(event, 0)
        if event not in ("open", "close"):
            assert depths[pid] > 0
            seen.append(event)
    assert set(depths.values()) == {0}
    assert sorted(seen) == sorted(events)


@every_executor
async def test_bodies_share_what_their_worker_opens(executor: Name, tmp_path: Path) -> None:
    log = tmp_path / "log"
    mod = {f"f{i}": i for i in range(8)}
    async with PassContext(executor=executor):
        assert await LogFunctions(str(log))(mod) == {name: func + 1 for name, func in mod.items()}
    lines = lines_of(log)
    assert_balanced(lines, [f"body {i}" for i in range(8)])
    if executor == "thread":
        assert (lines[0], lines[-1], len(lines)) == (f"{OWN} open", f"{OWN} close", 10)
    elif executor == "process":
        # The program does not open what only its workers use.
        assert not any(line.startswith(OWN) for line in lines)


@every_executor
async def test_error_in_a_worker_closes_the_pass(executor: Name, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with PassContext(executor=executor):
        with pytest.raises(ValueError, match="13"):
            await LogFunctions(str(log))({"f": 13})
    assert_balanced(lines_of(log), ["body 13"])


@every_executor
@pytest.mark.parametrize("kind", [LogModule, LogModuleLater])
async def test_module_pass_is_opened_where_it_runs(
    executor: Name, kind: type[LogModule | LogModuleLater], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    pass_: ModulePass[Module] = kind(str(log))
    whole = Sequential([pass_, pass_])
    assert await optimize_all([{"f": 1}, {"f": 2}], whole, executor=executor) == [{"f": 3}, {"f": 4}]
    assert_balanced(lines_of(log), ["module"] * 4)
    assert [line.split()[1] for line in lines_of(log)].count("open") == 2


@pytest.mark.parametrize("kind", [InThread, InProcess, LaterInThread, LaterInProcess])
async def test_module_pass_with_executor_is_opened_once(kind: type[LogModule | LogModuleLater], tmp_path: Path) -> None:
    log = tmp_path / "log"
    pass_: ModulePass[Module] = kind(str(log))
    assert await pass_({"f": 1}) == {"f": 2}
    assert [line.split()[1] for line in lines_of(log)] == ["open", "module", "close"]
