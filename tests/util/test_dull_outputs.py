"""Outputs that show little, and inputs with changed numbers."""

from typing import Any

import numpy as np

from apass.util.dull_outputs import changed_input, dull_outputs
from tests.helpers.rows import row


def test_output_that_cannot_vary_is_dull() -> None:
    rows: list[tuple[Any, str]] = [
        (np.full((2, 2), 0.5, np.float32), "has the same value 0.5 in all elements"),
        (np.array([-0.0, 0.0]), "has the same value 0 in all elements"),
        (np.array([7, 7]), "has the same value 7 in all elements"),
        (np.array([np.nan, np.nan]), "has the same value nan in all elements"),
        (np.zeros((0, 3)), "has no elements"),
        ([], "has no elements"),
        ([np.ones(2), np.ones(3)], "has the same value 1 in all elements"),
        ([np.ones(2), np.arange(2)], ""),
        (np.array([np.nan, 1.0]), ""),
        (np.array(["a", "a"]), ""),
        ("text", ""),
    ]
    for value, reason in rows:
        with row(value):
            assert dull_outputs(["y"], [value]) == ({"y": reason} if reason else {})


def test_changed_input_keeps_its_type() -> None:
    floats, numbers = np.array([-1.0, 2.0], np.float16), np.array([-1, 2])
    changed = changed_input(floats, lambda value: value * 100)
    assert (changed.dtype, changed.tolist()) == (np.float16, [-100.0, 200.0])
    assert changed_input(numbers, abs) is numbers
    assert changed_input(["text"], abs) == ["text"]
