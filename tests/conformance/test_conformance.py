"""Comparison of apass with recorded traces of TVM, event by event."""

from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass.testing import assert_trace
from tests.conformance.player import Pause, play, read_scenarios
from tests.conformance.tvm_player import TVMPlayer
from tests.helpers.rows import row

SCENARIOS = read_scenarios(Path(__file__).parent / "scenarios.jsonl")
PART = 50
"""The scenarios of one test."""


async def short_event() -> None:
    """Suspend until a new task sets an event."""
    event = anyio.Event()
    async with anyio.create_task_group() as helpers:
        helpers.start_soon(wake, event)
        await event.wait()


async def wake(event: anyio.Event) -> None:
    event.set()


def test_there_are_300_scenarios_with_traces() -> None:
    ids = {scenario["id"] for scenario in SCENARIOS}
    assert (len(ids), all(scenario["expect"] for scenario in SCENARIOS)) == (300, True)


@pytest.fixture
def no_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the warnings about unmatched names, which are ignored, suggest no name.

    Scenarios list random names in `disabled_pass` and `required_pass`. The comparison of each with the names of a
    thousand registered passes takes half of the time of all tests.
    """

    def no_suggestion(_name: str, _candidates: object) -> str:
        return ""

    monkeypatch.setattr("apass.core.scope.did_you_mean", no_suggestion)


@pytest.mark.usefixtures("no_suggestions")
@pytest.mark.filterwarnings("ignore::apass.errors.UnmatchedPassNameWarning")
@pytest.mark.parametrize("pause", [None, checkpoint, short_event], ids=["plain", "suspending", "waiting"])
@pytest.mark.parametrize("first", range(0, len(SCENARIOS), PART))
def test_traces_equal_those_of_tvm(first: int, anyio_backend: str, pause: Pause | None) -> None:
    for scenario in SCENARIOS[first : first + PART]:
        with row(scenario["id"]):
            assert_trace(play(scenario, anyio_backend, pause), scenario["expect"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_suggestions")
@pytest.mark.filterwarnings("ignore::apass.errors.UnmatchedPassNameWarning")
@pytest.mark.parametrize("first", range(0, len(SCENARIOS), PART))
def test_passes_of_tvm_give_the_same_traces(first: int, anyio_backend: str) -> None:
    # On trio a sample: the scenarios differ in what the runner does, and not in how TVM is called.
    step = 1 if anyio_backend == "asyncio" else 5
    for scenario in SCENARIOS[first : first + PART : step]:
        with row(scenario["id"]):
            assert_trace(play(scenario, anyio_backend, None, TVMPlayer), scenario["expect"])
