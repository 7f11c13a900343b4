"""Whether a pass kept the meaning of an ONNX model: both are evaluated, in worker processes, and compared."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Any, TypeVar

from anyio import BrokenWorkerProcess, CapacityLimiter, move_on_after, to_process, to_thread

from apass.concurrency.processes.pool import run_in_worker
from apass.core.adapter import adapter_for
from apass.errors import MissingExtraError

try:
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    raise MissingExtraError(f"evaluating ONNX models needs onnx ({error}): pip install apass[onnx]") from error

from apass.adapters.onnx.outputs.compare import Difference, differences, plain
from apass.adapters.onnx.outputs.random_inputs import random_inputs

__all__ = ["Difference", "Evaluation", "Status", "Verdict", "compare", "compare_outputs", "evaluate", "random_inputs"]

R = TypeVar("R")

Inputs = Sequence[Any] | Mapping[str, Any]
"""Values for the inputs of a model: in their order, or by name."""

LONGEST_REASON = 300
"""Characters of an evaluator's error that are kept."""


class Status(Enum):
    """What came of evaluating a model before and after."""

    EQUAL = "equal"
    """The outputs are the same, bit by bit or within tolerance."""
    DIFFERENT = "different"
    """They are not: the meaning has changed."""
    WRONG_ALIKE = "wrong alike"
    """They are the same, and not what was expected: the evaluator's fault, not the pass's."""
    RANDOM = "random"
    """They differ, and so do those of two evaluations of the model as it was before."""
    NEITHER = "evaluated neither before nor after"
    """The evaluator can do nothing with the model."""
    ONLY_BEFORE = "evaluated only before"
    """It cannot any more."""
    ONLY_AFTER = "evaluated only after"
    """It could not, and can now."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of evaluating one model."""

    outputs: tuple[Any, ...] | None
    """The values of the outputs, in their order; None if there are none."""
    names: tuple[str, ...] = ()
    """Their names."""
    error: str = ""
    """Why there are none: what the evaluator raised, that it took too long, or that its process died."""
    seconds: float = 0.0
    """How long it took."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model means the same before and after."""

    status: Status
    """What came of it."""
    reason: str = ""
    """Why it is not EQUAL, or not bit by bit; empty if it is."""
    difference: Difference | None = None
    """The biggest difference between the outputs, also one within tolerance."""
    seconds: float = 0.0
    """How long the two evaluations took together."""

    @property
    def changed(self) -> bool:
        """Whether the meaning has changed: other outputs, or none where there were some."""
        return self.status in (Status.DIFFERENT, Status.ONLY_BEFORE)


async def compare_outputs(
    before: Any,
    after: Any,
    inputs: Inputs | None = None,
    *,
    expected: Sequence[Any] | None = None,
    rtol: float | None = None,
    atol: float = 1e-7,
    seed: int = 0,
    time_limit: float = 60.0,
    limiter: CapacityLimiter | None = None,
) -> Verdict:
    """Evaluate two models with the reference evaluator of ONNX, in worker processes, and compare their outputs.

    A model that comes back as it was is evaluated once.

    A script that calls it must start its event loop below `if __name__ == "__main__"`: workers import the script.

    Parameters:
        before: a model, or the bytes of one as `OnnxAdapter.dumps` gives them.
        after: the model that a pass made of it.
        inputs: the values to evaluate both on; random ones, by the types of the inputs and `seed`, if left out.
        expected: the outputs that are right, so that a fault of the evaluator can be told.
        rtol: the relative tolerance where outputs are not the same bit by bit; by their type if left out.
        atol: the absolute one.
        seed: what random inputs depend on.
        time_limit: seconds that one evaluation may take; its process is killed then.
        limiter: how many evaluations run at once; as many as there are processors if left out.

    """
    one_model = await _as_bytes(before)
    other_model = one_model if after is before else await _as_bytes(after)
    limiter = limiter or to_process.current_default_process_limiter()
    if inputs is None:
        try:
            inputs, why = await _in_worker(random_inputs, (one_model, seed), time_limit, limiter)
        except ValueError as error:
            inputs, why = None, str(error)
        if inputs is None:
            return Verdict(Status.NEITHER, f"no inputs could be made: {why}")
    one = await _evaluate_in_worker(one_model, inputs, time_limit, limiter)
    same = one_model == other_model
    other = one if same else await _evaluate_in_worker(other_model, inputs, time_limit, limiter)
    verdict = compare(one, other, expected, rtol, atol)
    if verdict.status is not Status.DIFFERENT:
        return verdict
    again = await _evaluate_in_worker(one_model, inputs, time_limit, limiter)
    if again.outputs is not None and compare(one, again, None, rtol, atol).status is Status.DIFFERENT:
        return Verdict(Status.RANDOM, "two evaluations of the model before differ too", None, verdict.seconds)
    return verdict


def evaluate(model: bytes, inputs: Inputs) -> Evaluation:
    """Evaluate a model with the reference evaluator. It never raises: what goes wrong is in the result."""
    start = perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # What the operators have numpy warn of is in the outputs, for all to see.
        warnings.simplefilter("ignore")
        try:
            evaluator: Any = ReferenceEvaluator(onnx.ModelProto.FromString(model))
            feeds = inputs if isinstance(inputs, Mapping) else dict(zip(evaluator.input_names, inputs, strict=False))
            outputs = evaluator.run(None, {name: plain(value) for name, value in feeds.items()})
        except Exception as error:  # an evaluator of two hundred operators raises whatever there is
            return Evaluation(None, error=_short(error), seconds=perf_counter() - start)
    return Evaluation(tuple(map(plain, outputs)), tuple(evaluator.output_names), seconds=perf_counter() - start)


def compare(
    before: Evaluation,
    after: Evaluation,
    expected: Sequence[Any] | None = None,
    rtol: float | None = None,
    atol: float = 1e-7,
) -> Verdict:
    """Compare two evaluations; NaN equals NaN, integers and texts must be the same, other numbers within tolerance."""
    seconds = before.seconds + after.seconds
    if before.outputs is None or after.outputs is None:
        return Verdict(*_unevaluated(before, after), None, seconds)
    if before.names != after.names:
        reason = f"the outputs are {list(after.names)}, not {list(before.names)}"
        return Verdict(Status.DIFFERENT, reason, None, seconds)
    found = differences(before.names, before.outputs, after.outputs, rtol, atol)
    biggest = max(found, key=lambda one: (not one.near, one.amount), default=None)
    if biggest is not None and not biggest.near:
        return Verdict(Status.DIFFERENT, biggest.text, biggest, seconds)
    right = before.outputs if expected is None else tuple(map(plain, expected))
    wrong = [one for one in differences(before.names, right, before.outputs, rtol, atol) if not one.near]
    if wrong:
        return Verdict(Status.WRONG_ALIKE, f"the evaluator is wrong: {wrong[0].text}", biggest, seconds)
    return Verdict(Status.EQUAL, "" if biggest is None else f"within tolerance: {biggest.text}", biggest, seconds)


def _unevaluated(before: Evaluation, after: Evaluation) -> tuple[Status, str]:
    if before.outputs is not None:
        return Status.ONLY_BEFORE, f"after: {after.error}"
    if after.outputs is not None:
        return Status.ONLY_AFTER, f"before: {before.error}"
    same = before.error == after.error
    return Status.NEITHER, before.error if same else f"before: {before.error}; after: {after.error}"


async def _as_bytes(model: Any) -> bytes:
    return model if isinstance(model, bytes) else await to_thread.run_sync(adapter_for(model).dumps, model)


async def _evaluate_in_worker(model: bytes, inputs: Inputs, limit: float, limiter: CapacityLimiter) -> Evaluation:
    outcome, why = await _in_worker(evaluate, (model, inputs), limit, limiter)
    return outcome or Evaluation(None, error=why)


async def _in_worker(
    func: Callable[..., R], args: tuple[object, ...], limit: float, limiter: CapacityLimiter
) -> tuple[R | None, str]:
    """Return what `func` returns in a worker process; if that died or took too long, None and which of the two."""
    async with limiter:
        # To wait for a turn, or for a worker to start and to import all it needs, does not count against the limit.
        try:
            await run_in_worker(_nothing)
            with move_on_after(limit):
                return await run_in_worker(func, *args), ""
        except BrokenWorkerProcess as error:
            return None, f"the worker process died ({type(error.__cause__ or error).__name__})"
    return None, f"it took longer than {limit:g} s"


def _nothing() -> None:
    """Do nothing: what a worker that can do it has imported is what it needs for the rest."""


def _short(error: Exception) -> str:
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
