"""`examples/http_cost_model.py`: chosen tiles, with and without server faults."""

import re
from random import Random

import pytest

from examples.http_cost_model import CACHE, TILES, estimate, main

pytestmark = pytest.mark.network


def test_every_function_gets_the_fastest_tile(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--functions", "60", "--backend", backend])
    written, errors = capfd.readouterr()
    assert (status, errors) == (0, "")
    assert re.fullmatch("60 requests, 0 retried, 0 without an answer\n60 functions, .* s before, .* s after\n", written)


def test_failed_requests_are_retried(capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--functions", "60", "--faults", "0.4"])
    written, _ = capfd.readouterr()
    counts = re.match(r"60 requests, (\d+) retried, (\d+) without an answer", written)
    assert counts is not None
    retries, unanswered = map(int, counts.groups())
    # The number of faults does not depend on which requests they hit. Each is retried, but for the fourth of a request.
    draws = Random(0)
    faults = sum(draws.random() < 0.4 for _ in range(60 + retries))
    assert (status, retries, unanswered < 15) == (0, faults - unanswered, True)


def test_functions_without_answer_use_default_tile(capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--functions", "60", "--faults", "1"])
    written, _ = capfd.readouterr()
    assert (status, "60 without an answer" in written) == (0, True)


def test_estimate_accounts_for_cache_and_ragged_edges() -> None:
    assert min(TILES, key=lambda tile: estimate(8, 8, 8, tile)) == 8
    assert min(TILES, key=lambda tile: estimate(1024, 1024, 1024, tile)) == 64
    assert 3 * 64 * 64 * 4 <= CACHE < 3 * 128 * 128 * 4
