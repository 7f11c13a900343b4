"""`benchmarks.measure`: rows, and rounds of two jobs."""

from functools import partial
from itertools import count

import pytest

from benchmarks.measure import SESSION, Row, Session, compare, is_steady, quantity, record_rounds


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.5e-7, "s", "0.25 us"),
        (1.5e-3, "s", "1.50 ms"),
        (0.2345, "s", "234 ms"),
        (12.3, "s", "12.3 s"),
        (0, "s", "0.00 us"),
        (24.2, "bytes", "24 bytes"),
    ],
)
def test_quantity_has_three_digits_and_unit(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_ratio_is_the_median_of_the_rounds() -> None:
    # A busy machine slows down both jobs of the second round.
    row = record_rounds("job", [1.0, 30.0, 1.2], [2.0, 60.0, 2.0], 0.5, "peer")
    assert (row.ratio, row.ours, row.other, row.holds) == (0.5, 1.2, 2.0, True)
    assert row.spread == pytest.approx(0.05)


@pytest.mark.parametrize(("bound", "holds"), [(None, None), (0.4, False), (0.5, True)])
def test_row_holds_within_its_bound(bound: float | None, holds: bool | None) -> None:
    assert record_rounds("job", [1.0], [2.0], bound, "peer").holds is holds


def test_far_quartiles_are_not_steady() -> None:
    assert is_steady([1.0, 1.02, 1.0], [1.0, 1.0, 1.0])
    assert not is_steady([1.0, 1.5, 2.0], [1.0, 1.0, 1.0])


@pytest.mark.anyio
async def test_compare_records_in_the_running_session() -> None:
    calls: list[str] = []
    session = Session("area", "trio")
    token = SESSION.set(session)
    try:
        # Each sample takes one second of this clock, and so has one run.
        clock = map(float, count()).__next__
        ours, other = partial(calls.append, "ours"), partial(calls.append, "other")
        row = await compare("job", ours, other, None, "peer", 2, clock=clock)
    finally:
        SESSION.reset(token)
    assert session.rows == [row]
    assert isinstance(row, Row)
    assert (row.area, row.backend, row.holds) == ("area", "trio", None)
    # The first four are the warm-up.
    assert calls[4:] == ["ours", "other", "other", "ours"]
