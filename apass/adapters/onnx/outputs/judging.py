"""The comparison of two models in a worker process."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

import onnx

from apass.adapters.onnx.outputs.evaluation import ENGINES, Engine, Evaluation, evaluate
from apass.adapters.onnx.outputs.inputs import random_inputs
from apass.adapters.onnx.outputs.verdict import UNEVALUATED, Status, Verdict, compare
from apass.util.dull_outputs import changed_input
from apass.util.other_inputs import OtherInputs

__all__ = ["Finished", "Pair", "Started", "judge", "judge_all"]

Step = tuple[str, str]
"""A part of a comparison with its own time limit: an engine and a model, or the creation of the inputs."""

INPUTS: Final[Step] = ("inputs", "")

SECONDS: Final = 0.1
"""Seconds after which a worker returns the rest of a batch, so that another worker can take it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models to compare, and how."""

    before: bytes
    after: bytes
    inputs: bytes | None
    """The pickled inputs; None for random inputs."""
    expected: Sequence[Any] | None
    rtol: float | None
    atol: float
    seed: int
    engines: Sequence[Engine]
    lost: dict[Step, str] = field(default_factory=dict[Step, str])
    """Steps that ended the worker process, with the reasons. They are not repeated."""


@dataclass(frozen=True, slots=True)
class Started:
    """Message of a worker: a step starts."""

    index: int
    """The pair, by its index in the batch."""
    step: Step


@dataclass(frozen=True, slots=True)
class Finished:
    """Message of a worker: a pair is finished."""

    index: int
    """The pair, by its index in the batch."""
    seconds: float
    """Duration of the comparison."""
    outcome: bytes
    """The verdict, or the error of the comparison, pickled: only its caller unpickles it."""


def judge_all(pairs: Sequence[Pair], send: Callable[[bytes], None]) -> None:
    """Compare the models of each pair, and send the messages `Started` and `Finished`.

    After `SECONDS`, the pairs that have not started are left.
    """
    start = end = perf_counter()
    for index, pair in enumerate(pairs):
        if end - start > SECONDS:
            return

        def report(step: Step, index: int = index) -> None:
            send(pickle.dumps(Started(index, step)))

        outcome: Verdict | Exception
        try:
            outcome = judge(pair, report)
        except Exception as error:
            outcome = error
        begin, end = end, perf_counter()
        send(pickle.dumps(Finished(index, end - begin, _pickled(outcome))))


def judge(pair: Pair, report: Callable[[Step], None]) -> Verdict:
    """Return the verdict on two models.

    `report` is called before each step.
    """
    inputs = pair.inputs
    before = _Model("before", pair.before)
    if inputs is None:
        try:
            if INPUTS in pair.lost:
                raise ValueError(pair.lost[INPUTS])
            report(INPUTS)
            inputs = pickle.dumps(random_inputs(before.parsed(), pair.seed), pickle.HIGHEST_PROTOCOL)
        except ValueError as error:
            return Verdict(Status.NEITHER, f"cannot create inputs: {error}")
    after = before if pair.before == pair.after else _Model("after", pair.after)
    verdicts: list[Verdict] = []
    for engine in pair.engines:
        run = _EngineRun(pair, engine, inputs, report)
        verdicts.append(run.verdict(before, after))
        if verdicts[-1].status is Status.EQUAL and pair.inputs is None and before is not after:
            verdicts[-1] = run.with_other_inputs(before, after, verdicts[-1])
        status = verdicts[-1].status
        if verdicts[0].status is Status.DIFFERENT and status is Status.EQUAL:
            reason = f"equal in {engine}, but in {pair.engines[0]} {verdicts[0].reason}"
            return Verdict(Status.WRONG_ALIKE, reason, None, verdicts[-1].seconds)
        # Without expected outputs, the engine may be wrong about one of the models: ask the next one.
        if status not in UNEVALUATED and (status is not Status.DIFFERENT or pair.expected is not None):
            return verdicts[-1]
    return verdicts[0]


class _Model:
    """A model, which is parsed once."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self.data = data
        self._parsed: onnx.ModelProto | None = None

    def parsed(self) -> onnx.ModelProto | bytes:
        """Return the model; its bytes if they are no model, for the error message."""
        if self._parsed is None:
            try:
                self._parsed = onnx.ModelProto.FromString(self.data)
            except Exception:  # protobuf's DecodeError has no type stubs
                return self.data
        return self._parsed


@dataclass(frozen=True, slots=True)
class _EngineRun:
    """The evaluations of a pair by one engine."""

    pair: Pair
    engine: Engine
    inputs: bytes
    report: Callable[[Step], None]
    suffix: str = ""
    """Follows the names of the models in steps."""

    def verdict(self, before: _Model, after: _Model) -> Verdict:
        """Return the verdict, after a second evaluation if the outputs differ."""
        pair = self.pair
        first = self.evaluation(before)
        second = first if after is before else self.evaluation(after)
        verdict = compare(first, second, pair.expected, pair.rtol, pair.atol)
        if verdict.status is not Status.DIFFERENT:
            return verdict
        # Evaluate both once more, in case they contain random operators. The sessions are new ones, because a
        # session of onnxruntime returns other random numbers at its next run even if they have a seed.
        if not self._differ(first, self.evaluation(before, " again")):
            return verdict
        if not self._differ(second, self.evaluation(after, " again")):
            return Verdict(Status.DIFFERENT, "random outputs have become constant", None, verdict.seconds)
        return Verdict(Status.RANDOM, "two evaluations of the model before also differ", None, verdict.seconds)

    def with_other_inputs(self, before: _Model, after: _Model, verdict: Verdict) -> Verdict:
        """Return the verdict on other inputs, if the outputs show little about the model."""
        attempts = OtherInputs(verdict.dull, verdict.seconds)
        for name, change in attempts:
            values: dict[str, Any] = pickle.loads(self.inputs)
            inputs = pickle.dumps({key: changed_input(value, change) for key, value in values.items()})
            run = _EngineRun(self.pair, self.engine, inputs, self.report, f" with {name} inputs")
            other = run.verdict(before, after)
            if other.status is Status.DIFFERENT:
                return replace(other, reason=f"with {name} inputs, {other.reason}")
            if other.status is Status.EQUAL:
                attempts.learn(other.dull)
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, attempts.remark))))

    def evaluation(self, model: _Model, again: str = "") -> Evaluation:
        """Return the evaluation of one model, on its own copy of the inputs."""
        step = self.engine, model.name + self.suffix + again
        if step in self.pair.lost:
            return Evaluation(None, error=self.pair.lost[step])
        self.report(step)
        inputs = pickle.loads(self.inputs)
        if self.engine == "reference":
            return evaluate(model.parsed(), inputs)
        return ENGINES[self.engine](model.data, inputs)

    def _differ(self, first: Evaluation, second: Evaluation) -> bool:
        is_evaluated = second.outputs is not None
        return is_evaluated and compare(first, second, None, self.pair.rtol, self.pair.atol).status is Status.DIFFERENT


def _pickled(outcome: Verdict | Exception) -> bytes:
    """Return the pickled outcome; if it cannot be pickled, the error of pickle."""
    try:
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickle propagates any error of the objects
        return pickle.dumps(error)
