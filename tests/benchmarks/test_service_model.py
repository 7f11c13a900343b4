"""The simulation of the service, and the tables of its page."""

from statistics import fmean
from typing import Any

import pytest

from benchmarks.service_model import NETWORK, PROCESSORS, Costs, Simulation, parts_of
from benchmarks.service_plan import PAGE, with_tables

TINY = 1e-9


def costs(**changes: float) -> Costs:
    """Return costs that are nearly 0 except for the given ones."""
    values: dict[str, float] = dict.fromkeys(("client", "accept", "schedule", "store", "work"), TINY)
    return Costs(**{"commit": 0.0, **values, **changes})


@pytest.mark.parametrize(
    ("job", "workers", "processors", "expected"),
    [
        (costs(work=0.004), 2, 8.0, 0.002),  # two workers, each with a processor
        (costs(work=0.004), 2, 1.0, 0.004),  # both share a processor
        (costs(work=0.004, accept=0.003), 4, 8.0, 0.003),  # the server is slower than four workers
        (costs(work=0.004, accept=0.002, client=0.002), 2, 2.0, 0.004),  # 8 ms of work on two processors
    ],
    ids=["workers", "processors", "server", "shared"],
)
def test_throughput_is_that_of_the_slowest_part(job: Costs, workers: int, processors: float, expected: float) -> None:
    simulation = Simulation(job, clients=50, workers=workers, processors=processors)
    assert simulation.run(2_000) / 2_000 == pytest.approx(expected, rel=0.1)


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


def test_parts_of_many_machines_include_shared_ones() -> None:
    job = costs(accept=0.001, database=0.002)
    alone = parts_of(job, 0.01, 1_000, 1, shared=False)
    assert alone["workers"] == pytest.approx((PROCESSORS - 1) / 0.01)
    assert "PostgreSQL" not in alone
    shared = parts_of(job, 0.01, 1_000, 10, shared=True)
    assert shared["workers"] == pytest.approx(10 * alone["workers"])
    assert shared["PostgreSQL"] == pytest.approx(PROCESSORS / 0.002)
    assert shared["network of the database"] == NETWORK / 2_000


def test_page_has_the_tables_of_the_rows() -> None:
    values: dict[str, float] = {
        "cost of a job, SQLite: acceptance": 0.0004,
        "cost of a job, PostgreSQL: database": 0.001,
        "small models of 1,652 bytes, six passes: worker": 0.001,
        "small models of 1,652 bytes, six passes: 1000 machines, limit: PostgreSQL": 1_234.0,
    }
    rows: list[dict[str, Any]] = [
        {"area": "service_model", "name": name, "ours": value} for name, value in values.items()
    ]
    page = with_tables(PAGE.read_text(), {"rows": rows})
    assert "| acceptance | 400 us |  |\n| database |  | 1.00 ms |\n" in page
    assert "| small, 1,652 bytes | six passes | 1.00 ms | 1,000 | 110 million | PostgreSQL |\n" in page
    assert with_tables(page, {"rows": rows}) == page
