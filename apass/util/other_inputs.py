"""Further inputs for a comparison of outputs that shows little."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any, Final

__all__ = ["OtherInputs", "same_value"]

CHANGES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "large": lambda value: value * 100,
    "positive": abs,
    "negative": lambda value: -abs(value),
    "small": lambda value: value / 100,
}
"""Changes of random numbers, which may lead to other outputs where the first ones are all equal."""

LEAST_SECONDS: Final = 1.0
"""Seconds for other inputs, if the first comparison took less."""


def same_value(output: str, values: Iterable[float]) -> dict[str, str]:
    """Return why results for several inputs show little, by output.

    The result is empty if they vary, or if there are none.

    >>> same_value("@f", [0, 0, 0]), same_value("@f", [0, 1])
    ({'@f': 'has the same value 0 for all inputs'}, {})
    """
    # NaN is not equal to itself, and the sign of zero varies with that of inputs.
    shown = {str(value + 0) for value in values}
    return {output: f"has the same value {shown.pop()} for all inputs"} if len(shown) == 1 else {}


class OtherInputs:
    """Attempts on other inputs: larger, of each sign, and smaller.

    They end when each output has varied, or when the budget is over. Programs that take long are run less often.

    >>> attempts = OtherInputs({"the result": "has the same value 0 in all elements"}, seconds=0.1)
    >>> for name, change in attempts:
    ...     attempts.learn({} if change(0.5) > 1 else attempts.dull)
    >>> name, attempts.remark
    ('large', '')
    """

    def __init__(self, dull: Mapping[str, str], seconds: float) -> None:
        """Start with the outputs of a comparison.

        Parameters:
            dull: the outputs that show little, with the reasons.
            seconds: the duration of the comparison, which the attempts may take as well.

        """
        self.dull: Mapping[str, str] = dull
        """The outputs that have not varied, with the reasons."""
        self._budget = max(LEAST_SECONDS, seconds)

    def __iter__(self) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """Iterate over names of inputs, each with the change of numbers."""
        start = perf_counter()
        for name, change in CHANGES.items():
            if not self.dull or perf_counter() - start > self._budget:
                return
            yield name, change

    def learn(self, dull: Mapping[str, str]) -> None:
        """Record the outputs of an attempt that show little, with the reasons."""
        self.dull = {output: reason for output, reason in self.dull.items() if dull.get(output) == reason}

    @property
    def remark(self) -> str:
        """The remark on the first output that has not varied; empty if all have."""
        return next((f"{output} {reason}, which shows little" for output, reason in self.dull.items()), "")
