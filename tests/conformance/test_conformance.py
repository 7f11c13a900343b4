"""Every recorded trace of TVM comes out of apass, event by event."""

from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.conformance.player import Pause, first_difference, play, read_scenarios

SCENARIOS = read_scenarios(Path(__file__).parent / "scenarios.jsonl")


async def short_event() -> None:
    """Suspend until another task, started for it, has set an event."""
    event = anyio.Event()
    async with anyio.create_task_group() as helpers:
        helpers.start_soon(wake, event)
        await event.wait()


async def wake(event: anyio.Event) -> None:
    event.set()


def test_there_are_300_scenarios_with_a_trace_each() -> None:
    ids = {scenario["id"] for scenario in SCENARIOS}
    assert (len(ids), all(scenario["expect"] for scenario in SCENARIOS)) == (300, True)


# The scenarios name passes at random in `disabled_pass` and `required_pass`; those that no step runs are warned about.
@pytest.mark.filterwarnings("ignore::apass.UnmatchedPassNameWarning")
@pytest.mark.parametrize("pause", [None, checkpoint, short_event], ids=["plain", "suspending", "waiting"])
def test_every_trace_is_that_of_tvm(anyio_backend: str, pause: Pause | None) -> None:
    played = [(scenario, play(scenario, anyio_backend, pause)) for scenario in SCENARIOS]
    wrong = [(scenario, got) for scenario, got in played if got != scenario["expect"]]
    if wrong:
        scenario, got = wrong[0]
        shown = first_difference(scenario["expect"], got)
        pytest.fail(f"{len(wrong)} of {len(played)} traces differ; the first is {scenario['id']}:\n{shown}")
