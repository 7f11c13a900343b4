"""The simulation of the service, and the tables of its page."""

from statistics import fmean
from typing import Any

import pytest

from benchmarks.service_model import Costs, Simulation
from benchmarks.service_plan import PAGE, with_tables

TINY, INFINITE = 1e-9, float("inf")


def costs(**changes: float) -> Costs:
    """Return costs that are nearly 0 except for the given ones."""
    values: dict[str, float] = dict.fromkeys(("client", "accept", "schedule", "work"), TINY)
    return Costs(**{**values, **changes})


@pytest.mark.parametrize(
    ("job", "workers", "processors", "expected"),
    [
        (costs(work=0.004), 2, 8.0, 0.002),  # two workers, each with a processor
        (costs(work=0.004), 2, 1.0, 0.004),  # both share a processor
        (costs(work=0.004, accept=0.003), 4, 8.0, 0.003),  # the server is slower than four workers
        (costs(work=0.004, accept=0.002, client=0.002), 2, 2.0, 0.004),  # 8 ms of work on two processors
        (costs(work=0.1, task=0.002), 1_000, INFINITE, 0.002),  # the scheduler is slower than the workers
        (costs(work=0.004, database=0.003), 4, INFINITE, 0.003),  # the database has one connection that writes
    ],
    ids=["workers", "processors", "server", "shared", "scheduler", "database"],
)
def test_throughput_is_that_of_the_slowest_part(job: Costs, workers: int, processors: float, expected: float) -> None:
    simulation = Simulation(job, clients=max(50, 2 * workers), workers=workers, processors=processors)
    assert simulation.run(20_000) / 20_000 == pytest.approx(expected, rel=0.1)


def test_latency_follows_from_throughput_and_clients() -> None:
    simulation = Simulation(costs(work=0.004), clients=50, workers=2, processors=8)
    seconds = simulation.run(2_000) / 2_000
    # Little's law.
    assert fmean(simulation.latencies) == pytest.approx(50 * seconds, rel=0.1)


def test_single_client_waits_for_each_transaction() -> None:
    simulation = Simulation(costs(work=0.001, commit=0.01), clients=1, workers=1, processors=8)
    # Acceptance, start and end.
    assert simulation.run(20) / 20 == pytest.approx(0.031, rel=0.01)


def test_jobs_that_wait_at_once_share_a_transaction() -> None:
    simulation = Simulation(costs(work=0.001, commit=0.01), clients=200, workers=2, processors=8)
    assert simulation.run(2_000) / 2_000 < 0.002


def test_busiest_part_is_known() -> None:
    for job, expected in ((costs(work=0.1), "workers"), (costs(accept=0.1), "server"), (costs(database=1), "database")):
        simulation = Simulation(job, clients=50, workers=2)
        simulation.run(200)
        assert simulation.busiest() == expected


def test_page_has_the_tables_of_the_rows() -> None:
    values: dict[str, float] = {
        "cost, small models of 1,652 bytes, one machine: accept": 0.0004,
        "cost, small models of 1,652 bytes, cluster: task": 0.001,
        "small models of 1,652 bytes, one machine, 7 workers: server": 1_234.0,
        "small models of 1,652 bytes, cluster, 64 workers: database": 12.34,
    }
    rows: list[dict[str, Any]] = [
        {"area": "service_model", "name": name, "ours": value} for name, value in values.items()
    ]
    page = with_tables(PAGE.read_text(), {"rows": rows})
    assert "| small models of 1,652 bytes, one machine | 400 us |  |  |  |  |  |\n" in page
    assert "| small models of 1,652 bytes, cluster |  |  |  |  | 1.00 ms |  |\n" in page
    assert "| Models | one machine, 7 workers | cluster, 64 workers |\n" in page
    assert "| small models of 1,652 bytes | 110 million, server | 1.1 million, database |\n" in page
    assert with_tables(page, {"rows": rows}) == page
