"""The admission of jobs by their expected memory."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from apass.service.memory import LEAST, MemoryBudget, NeedsMemory

MIB = 2**20


@dataclass(eq=False)
class Job(NeedsMemory):
    """A job that is expected to need as many MiB as its budget knows."""

    kind: str
    size: int = 1


def budget(limit: int, **needs: int) -> MemoryBudget:
    """Return a budget of some MiB, which knows what jobs of some kinds need."""
    memory = MemoryBudget(limit * MIB)
    for kind, need in needs.items():
        memory.learn(Job(kind), need * MIB)
    return memory


def started(memory: MemoryBudget, jobs: Sequence[Job]) -> str:
    """Offer jobs in order, and return the kinds of those that have begun."""
    kinds = ""
    for job in jobs:
        if memory.fits(job):
            memory.begin(job)
            kinds += job.kind
    return kinds


def test_large_jobs_do_not_run_at_once() -> None:
    memory = budget(1000, a=400)
    first, second, third = jobs = [Job("a") for _ in range(3)]
    assert started(memory, jobs) == "aa"
    memory.end(first)
    assert started(memory, [third]) == "a"
    memory.end(second)
    memory.end(third)
    assert memory.expected == 0


def test_job_larger_than_the_limit_runs_alone() -> None:
    memory = budget(1000, a=100, b=5000)
    small, large = Job("a"), Job("b")
    assert started(memory, [small, large]) == "a"
    memory.end(small)
    assert started(memory, [large, Job("a")]) == "b"


def test_others_do_not_delay_the_next_job() -> None:
    memory = budget(1000, a=600, b=700, c=100)
    running, waiting = Job("a"), Job("b")
    small = [Job("c") for _ in range(5)]
    assert started(memory, [running, waiting, *small]) == "accc"
    memory.end(running)
    assert started(memory, [*small[3:], waiting]) == "b"


def test_cancelled_job_loses_its_place() -> None:
    memory = budget(1000, a=600, b=700)
    running, waiting = Job("a"), Job("b")
    assert started(memory, [running, waiting]) == "a"
    memory.leave(waiting)
    assert started(memory, [Job("a", size=0)]) == "a"


def test_expectation_comes_from_size_and_history() -> None:
    memory = MemoryBudget(None)
    assert memory.need(Job("a", 100 * MIB)) == LEAST + 800 * MIB
    memory.learn(Job("a", 100 * MIB), 300 * MIB)
    assert memory.need(Job("a", 101 * MIB)) == 300 * MIB
    assert memory.need(Job("b", 101 * MIB)) == LEAST + 808 * MIB
    # A larger one needs at least as much, and its own size.
    assert memory.need(Job("a", 1000 * MIB)) == 300 * MIB + 8000 * MIB
    memory.learn(Job("a", 100 * MIB), 10 * MIB)
    assert memory.need(Job("a", 101 * MIB)) == 270 * MIB


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans())))
def test_running_jobs_never_exceed_the_limit(steps: list[tuple[str, bool]]) -> None:
    memory = budget(10, a=1, b=3, c=6, d=20)
    waiting: list[Job] = []
    running: list[Job] = []
    for kind, ends in steps:
        if ends and running:
            memory.end(running.pop(0))
        waiting.append(Job(kind))
        for job in list(waiting):
            if memory.fits(job):
                memory.begin(job)
                waiting.remove(job)
                running.append(job)
        assert memory.expected <= 10 * MIB or len(running) == 1
    # No job waits forever.
    while running:
        memory.end(running.pop())
        for job in list(waiting):
            if memory.fits(job):
                memory.begin(job)
                waiting.remove(job)
                running.append(job)
    assert not waiting
