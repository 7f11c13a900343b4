"""Checks that a pass kept the meaning of an ONNX model.

The models before and after are evaluated in worker processes, and their outputs are compared.
"""

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
except ImportError as _error:
    raise MissingExtraError(f"evaluating ONNX models needs onnx ({_error}): pip install 'apass[onnx]'") from _error

from apass.adapters.onnx.outputs.comparison import Difference, differences, plain
from apass.adapters.onnx.outputs.inputs import random_inputs

__all__ = ["Difference", "Evaluation", "Status", "Verdict", "compare", "compare_outputs", "evaluate", "random_inputs"]

R = TypeVar("R")

Inputs = Sequence[Any] | Mapping[str, Any]
"""Values of the inputs of a model, in order or by name."""

LONGEST_REASON = 300
"""Maximum number of characters of an evaluator's error."""


class Status(Enum):
    """The outcome of evaluating a model before and after."""

    EQUAL = "equal"
    """The outputs are identical, or equal within tolerance."""
    DIFFERENT = "different"
    """The outputs differ: the meaning has changed."""
    WRONG_ALIKE = "wrong alike"
    """The outputs are equal, but not the expected ones: an error of the evaluator, not of the pass."""
    RANDOM = "random"
    """The outputs differ, and so do those of two evaluations of the model before."""
    NEITHER = "evaluated neither before nor after"
    """The evaluator supports neither model."""
    ONLY_BEFORE = "evaluated only before"
    """The evaluator fails only on the model after."""
    ONLY_AFTER = "evaluated only after"
    """The evaluator fails only on the model before."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The outcome of evaluating one model."""

    outputs: tuple[Any, ...] | None
    """The values of the outputs, in order; None if the evaluation failed."""
    names: tuple[str, ...] = ()
    """The names of the outputs."""
    error: str = ""
    """The reason of a failure: the evaluator's error, the time limit, or a dead worker process."""
    seconds: float = 0.0
    """Duration of the evaluation."""


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

    @property
    def changed(self) -> bool:
        """Whether the meaning has changed: the outputs differ, or are missing after."""
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
    """Evaluate two models with ONNX's reference evaluator, and compare their outputs.

    The evaluations run in worker processes. If the models are identical, only one is evaluated.

    A script that calls this must start its event loop below `if __name__ == "__main__"`: workers import the script.

    Parameters:
        before: a model, or its bytes as returned by `OnnxAdapter.dumps`.
        after: the model that a pass returned for it.
        inputs: input values for both models; by default random values for the types of the inputs.
        expected: the correct outputs, which identify an error of the evaluator.
        rtol: the relative tolerance of outputs that are not identical; by default it depends on their type.
        atol: the absolute tolerance.
        seed: seed of the random inputs.
        time_limit: seconds for one evaluation, after which its process is killed.
        limiter: limit of concurrent evaluations; by default the number of processors.

    """
    model_before = await _as_bytes(before)
    model_after = model_before if after is before else await _as_bytes(after)
    limiter = limiter or to_process.current_default_process_limiter()
    if inputs is None:
        try:
            inputs, reason = await _in_worker(random_inputs, (model_before, seed), time_limit, limiter)
        except ValueError as error:
            inputs, reason = None, str(error)
        if inputs is None:
            return Verdict(Status.NEITHER, f"cannot create inputs: {reason}")
    first = await _evaluate_in_worker(model_before, inputs, time_limit, limiter)
    is_same = model_before == model_after
    second = first if is_same else await _evaluate_in_worker(model_after, inputs, time_limit, limiter)
    verdict = compare(first, second, expected, rtol, atol)
    if verdict.status is not Status.DIFFERENT:
        return verdict
    # Evaluate the model before once more, in case it contains random operators.
    repeated = await _evaluate_in_worker(model_before, inputs, time_limit, limiter)
    if repeated.outputs is not None and compare(first, repeated, None, rtol, atol).status is Status.DIFFERENT:
        return Verdict(Status.RANDOM, "two evaluations of the model before also differ", None, verdict.seconds)
    return verdict


def evaluate(model: bytes, inputs: Inputs) -> Evaluation:
    """Evaluate a model with the reference evaluator.

    Errors are not raised; they are part of the result.
    """
    start = perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Operators make numpy warn of invalid values, such as log(-1). The outputs contain them (NaN, inf).
        warnings.simplefilter("ignore")
        try:
            evaluator: Any = ReferenceEvaluator(onnx.ModelProto.FromString(model))
            feeds = inputs if isinstance(inputs, Mapping) else dict(zip(evaluator.input_names, inputs, strict=False))
            outputs = evaluator.run(None, {name: plain(value) for name, value in feeds.items()})
        except Exception as error:
            # The evaluator implements about two hundred operators, which raise errors of many types.
            return Evaluation(None, error=_short(error), seconds=perf_counter() - start)
    return Evaluation(tuple(map(plain, outputs)), tuple(evaluator.output_names), seconds=perf_counter() - start)


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
    return Verdict(Status.EQUAL, "" if largest is None else f"within tolerance: {largest.text}", largest, seconds)


def _unevaluated(before: Evaluation, after: Evaluation) -> tuple[Status, str]:
    if before.outputs is not None:
        return Status.ONLY_BEFORE, f"after: {after.error}"
    if after.outputs is not None:
        return Status.ONLY_AFTER, f"before: {before.error}"
    is_same = before.error == after.error
    return Status.NEITHER, before.error if is_same else f"before: {before.error}; after: {after.error}"


async def _as_bytes(model: Any) -> bytes:
    return model if isinstance(model, bytes) else await to_thread.run_sync(adapter_for(model).dumps, model)


async def _evaluate_in_worker(model: bytes, inputs: Inputs, limit: float, limiter: CapacityLimiter) -> Evaluation:
    outcome, reason = await _in_worker(evaluate, (model, inputs), limit, limiter)
    return outcome or Evaluation(None, error=reason)


async def _in_worker(
    func: Callable[..., R], args: tuple[object, ...], limit: float, limiter: CapacityLimiter
) -> tuple[R | None, str]:
    """Return the result of `func` in a worker process, or None and the reason."""
    async with limiter:
        # A first call starts the worker, which imports this module and onnx. That time, like the wait for the
        # limiter, does not count against the limit.
        try:
            await run_in_worker(_warm_up)
            with move_on_after(limit):
                return await run_in_worker(func, *args), ""
        except BrokenWorkerProcess as error:
            return None, f"the worker process died ({type(error.__cause__ or error).__name__})"
    return None, f"the evaluation took longer than {limit:g} s"


def _warm_up() -> None:
    """Do nothing. Calling it in a worker makes the worker import this module."""


def _short(error: Exception) -> str:
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
