"""Checks that a pass kept the meaning of an ONNX model.

The models before and after are evaluated in worker processes, and their outputs are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from anyio import BrokenWorkerProcess, CapacityLimiter, move_on_after, to_process, to_thread

from apass.concurrency.processes.pool import run_in_worker
from apass.core.adapter import adapter_for

# Imported first: its error message names the extra to install.
from apass.adapters.onnx.outputs.evaluation import ENGINES, Engine, Evaluation, Inputs, evaluate  # isort: skip
from apass.adapters.onnx.outputs.comparison import Difference, differences, plain
from apass.adapters.onnx.outputs.inputs import random_inputs

__all__ = [
    "Difference",
    "Engine",
    "Evaluation",
    "Status",
    "Verdict",
    "call_in_worker",
    "compare",
    "compare_outputs",
    "evaluate",
    "random_inputs",
]

R = TypeVar("R")


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


_UNEVALUATED: Final = frozenset({Status.NEITHER, Status.ONLY_BEFORE, Status.ONLY_AFTER})


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
    engines: Sequence[Engine] = ("reference",),
) -> Verdict:
    """Evaluate two models in worker processes, and compare their outputs.

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
        engines: what evaluates the models. An engine is used if the engines before it cannot evaluate both models, or
            find a difference although no outputs are `expected`.

    """
    model_before = await _as_bytes(before)
    model_after = model_before if after is before else await _as_bytes(after)
    limiter = limiter or to_process.current_default_process_limiter()
    if inputs is None:
        try:
            inputs, reason = await call_in_worker(random_inputs, (model_before, seed), time_limit, limiter)
        except ValueError as error:
            inputs, reason = None, str(error)
        if inputs is None:
            return Verdict(Status.NEITHER, f"cannot create inputs: {reason}")
    verdicts: list[Verdict] = []
    for engine in engines:
        pair = _Pair(model_before, model_after, inputs, ENGINES[engine], time_limit, limiter)
        verdicts.append(await pair.verdict(expected, rtol, atol))
        status = verdicts[-1].status
        if verdicts[0].status is Status.DIFFERENT and status is Status.EQUAL:
            reason = f"equal in {engine}, but in {engines[0]} {verdicts[0].reason}"
            return Verdict(Status.WRONG_ALIKE, reason, None, verdicts[-1].seconds)
        # Without expected outputs, the engine may be wrong about one of the models: ask the next one.
        if status not in _UNEVALUATED and (status is not Status.DIFFERENT or expected is not None):
            return verdicts[-1]
    return verdicts[0]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two models that one engine evaluates in worker processes."""

    before: bytes
    after: bytes
    inputs: Inputs
    engine: Callable[[bytes, Inputs], Evaluation]
    time_limit: float
    limiter: CapacityLimiter

    async def verdict(self, expected: Sequence[Any] | None, rtol: float | None, atol: float) -> Verdict:
        """Return the verdict, after a second evaluation if the outputs differ."""
        first = await self.evaluate(self.before)
        second = first if self.before == self.after else await self.evaluate(self.after)
        verdict = compare(first, second, expected, rtol, atol)
        if verdict.status is not Status.DIFFERENT:
            return verdict
        # Evaluate both once more, in case they contain random operators.
        if not _differ(first, await self.evaluate(self.before), rtol, atol):
            return verdict
        if not _differ(second, await self.evaluate(self.after), rtol, atol):
            return Verdict(Status.DIFFERENT, "random outputs have become constant", None, verdict.seconds)
        return Verdict(Status.RANDOM, "two evaluations of the model before also differ", None, verdict.seconds)

    async def evaluate(self, model: bytes) -> Evaluation:
        """Return the evaluation of one model."""
        outcome, reason = await call_in_worker(self.engine, (model, self.inputs), self.time_limit, self.limiter)
        return outcome or Evaluation(None, error=reason)


def _differ(first: Evaluation, second: Evaluation, rtol: float | None, atol: float) -> bool:
    return second.outputs is not None and compare(first, second, None, rtol, atol).status is Status.DIFFERENT


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


async def call_in_worker(
    func: Callable[..., R], args: tuple[object, ...], limit: float, limiter: CapacityLimiter
) -> tuple[R | None, str]:
    """Return the result of `func` in a worker process, or None and the reason.

    The reason is the time limit, after which the process is killed, or the death of the process.

    Parameters:
        func: a function of a module, without side effects.
        args: its arguments, which are pickled.
        limit: seconds for the call.
        limiter: limit of concurrent calls.

    """
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
