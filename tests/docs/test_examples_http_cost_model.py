"""The example that asks an HTTP cost model: every tile is the best that is known, with faults and without."""

import re
from random import Random

import pytest

from examples.http_cost_model import CACHE, TILES, estimate, main


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_function_gets_the_tile_that_the_model_names(backend: str, capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--functions", "60", "--backend", backend])
    written, errors = capfd.readouterr()
    assert (status, errors) == (0, "")
    assert re.fullmatch(
        "60 questions, 0 asked again, 0 without an answer\n60 functions, .* s before, .* s after\n", written
    )


def test_a_model_that_fails_is_asked_again(capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--functions", "60", "--faults", "0.4"])
    written, _ = capfd.readouterr()
    counts = re.match(r"60 questions, (\d+) asked again, (\d+) without an answer", written)
    assert counts is not None
    again, unanswered = map(int, counts.groups())
    # Whichever questions they fall on, the server's faults are these, and each but a question's fourth is asked again.
    draws = Random(0)
    faults = sum(draws.random() < 0.4 for _ in range(60 + again))
    assert (status, again, unanswered < 15) == (0, faults - unanswered, True)


def test_without_a_model_every_function_goes_by_the_rule_of_thumb(capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["--functions", "60", "--faults", "1"])
    written, _ = capfd.readouterr()
    assert (status, "60 without an answer" in written) == (0, True)


def test_the_model_knows_small_caches_and_ragged_edges() -> None:
    assert min(TILES, key=lambda tile: estimate(8, 8, 8, tile)) == 8
    assert min(TILES, key=lambda tile: estimate(1024, 1024, 1024, tile)) == 64
    assert 3 * 64 * 64 * 4 <= CACHE < 3 * 128 * 128 * 4
