"""The verdict on two evaluations: whether a pass kept the meaning of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from apass.adapters.onnx.outputs.comparison import Difference, differences, plain
from apass.adapters.onnx.outputs.evaluation import Evaluation
from apass.core.ir_plugin import Comparison
from apass.util.dull_outputs import dull_outputs

__all__ = ["UNEVALUATED", "Status", "Verdict", "compare"]


class Status(Enum):
    """The outcome of evaluating a model before and after."""

    EQUAL = "equal"
    """The outputs are identical, or equal within tolerance."""
    DIFFERENT = "different"
    """The outputs differ: the meaning has changed."""
    WRONG_ALIKE = "wrong alike"
    """An error of the evaluator, not of the pass: the outputs are equal, but not the expected ones, or they are
    different, but equal in another evaluator."""
    RANDOM = "random"
    """The outputs differ, and so do those of two evaluations of each model."""
    NEITHER = "evaluated neither before nor after"
    """The evaluator supports neither model."""
    ONLY_BEFORE = "evaluated only before"
    """The evaluator fails only on the model after."""
    ONLY_AFTER = "evaluated only after"
    """The evaluator fails only on the model before."""
    LIMITED = "evaluation ended by a limit"
    """One of the models reaches the limit of time or memory, which proves nothing."""


UNEVALUATED: Final = frozenset({Status.NEITHER, Status.ONLY_BEFORE, Status.ONLY_AFTER, Status.LIMITED})
"""The outcomes without outputs of both models."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of comparing a model before and after."""

    status: Status
    """The outcome."""
    reason: str = ""
    """The reason why the outputs are not identical; empty if they are."""
    difference: Difference | None = None
    """The largest difference between the outputs, even if it is within tolerance."""
    seconds: float = 0.0
    """Total duration of the two evaluations."""
    dull: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """The equal outputs that show little, with the reasons; see `dull_outputs`."""

    @property
    def changed(self) -> bool:
        """Whether the meaning has changed: the outputs differ, or are missing after."""
        return self.status in (Status.DIFFERENT, Status.ONLY_BEFORE)

    @property
    def comparison(self) -> Comparison:
        """The verdict in the words of all IRs: equal, changed or not verified."""
        if self.changed:
            return Comparison.different(self.reason)
        if self.status in (Status.EQUAL, Status.WRONG_ALIKE):
            return Comparison.same(self.reason)
        return Comparison.unverified(f"{self.status.value}: {self.reason}" if self.reason else self.status.value)


def compare(
    before: Evaluation,
    after: Evaluation,
    expected: Sequence[Any] | None = None,
    rtol: float | None = None,
    atol: float = 1e-7,
) -> Verdict:
    """Compare the outputs of two evaluations.

    NaN equals NaN. Integers and strings must be identical, other numbers equal within tolerance.
    """
    seconds = before.seconds + after.seconds
    if before.outputs is None or after.outputs is None:
        return Verdict(*_unevaluated(before, after), None, seconds)
    if before.names != after.names:
        reason = f"the outputs are {list(after.names)}, expected {list(before.names)}"
        return Verdict(Status.DIFFERENT, reason, None, seconds)
    found = differences(before.names, before.outputs, after.outputs, rtol, atol)
    # A difference out of tolerance is larger than any difference within it.
    largest = max(found, key=lambda difference: (not difference.near, difference.amount), default=None)
    if largest is not None and not largest.near:
        return Verdict(Status.DIFFERENT, largest.text, largest, seconds)
    correct = before.outputs if expected is None else tuple(map(plain, expected))
    errors = differences(before.names, correct, before.outputs, rtol, atol)
    wrong = [difference for difference in errors if not difference.near]
    if wrong:
        return Verdict(Status.WRONG_ALIKE, f"the evaluator is wrong: {wrong[0].text}", largest, seconds)
    reason = "" if largest is None else f"within tolerance: {largest.text}"
    dull = dull_outputs([f"output {name!r}" for name in before.names], before.outputs)
    return Verdict(Status.EQUAL, reason, largest, seconds, dull)


def _unevaluated(before: Evaluation, after: Evaluation) -> tuple[Status, str]:
    if before.is_limited:
        return Status.LIMITED, f"before: {before.error}"
    if before.outputs is not None:
        return Status.LIMITED if after.is_limited else Status.ONLY_BEFORE, f"after: {after.error}"
    if after.outputs is not None:
        return Status.ONLY_AFTER, f"before: {before.error}"
    is_same = before.error == after.error
    return Status.NEITHER, before.error if is_same else f"before: {before.error}; after: {after.error}"
