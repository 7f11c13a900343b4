"""`OtherInputs`: the order, the end and the remark of attempts."""

from itertools import count

import pytest

from apass.util import other_inputs
from apass.util.other_inputs import OtherInputs

DULL = {"a": "is 0", "b": "is 1"}


def test_attempts_end_when_outputs_have_varied() -> None:
    assert list(OtherInputs({}, 0.0)) == []
    attempts = OtherInputs(DULL, 0.0)
    seen: list[str] = []
    for name, _ in attempts:
        seen.append(name)
        # First b varies, then a has another value.
        attempts.learn({"a": "is 0"} if name == "large" else {"a": "is 2"})
    assert (seen, attempts.remark) == (["large", "positive"], "")


def test_attempts_change_size_and_sign() -> None:
    attempts = OtherInputs(DULL, 0.0)
    assert [change(-0.5) for _, change in attempts] == [-50, 0.5, -0.5, -0.005]
    assert attempts.remark == "a is 0, which shows little"


def test_attempts_end_with_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, expected in ((0.0, 1), (2.5, 2)):
        monkeypatch.setattr(other_inputs, "perf_counter", count().__next__)
        assert len(list(OtherInputs(DULL, seconds))) == expected
