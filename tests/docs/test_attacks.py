"""The attacks of the page "Security", with small counts and with large ones."""

import asyncio
import warnings
from collections.abc import Iterator

import pytest

from tests.docs.attacks import ATTACKS, outcomes
from tests.helpers.repository import ROOT


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def defects(name: str, count: int, seed: int) -> list[str]:
    """Return the outcomes that are defects; they are written in capitals."""
    counts = asyncio.run(outcomes(ATTACKS[name], count, seed))
    assert counts.total() == count
    return [outcome for outcome in counts if outcome.split()[0].isupper()]


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_finds_no_defect(name: str) -> None:
    assert defects(name, 20, 0) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_many_attacks_find_no_defect(name: str) -> None:
    # Each attempt on a job store starts two servers.
    assert defects(name, 60 if "job store" in name else 300, 1_000_000) == []


def test_page_lists_every_attack() -> None:
    page = (ROOT / "docs" / "explanation" / "security.md").read_text()
    assert [name for name in ATTACKS if f"| {name} |" not in page] == []
