"""The comparison of two models in a worker process."""

import pickle
from collections.abc import Callable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final

import onnx

from apass.adapters.onnx.memory_limit import memory_limit
from apass.adapters.onnx.outputs.comparison import differences
from apass.adapters.onnx.outputs.evaluation import (
    LOADERS,
    RANDOM_OPERATORS,
    Engine,
    Evaluation,
    LoadedModel,
    load_runtime,
)
from apass.adapters.onnx.outputs.input_search import InputSearch
from apass.adapters.onnx.outputs.inputs import parsed
from apass.adapters.onnx.outputs.verdict import UNEVALUATED, Status, Verdict, compare
from apass.util.dull_outputs import changed_input
from apass.util.other_inputs import OtherInputs

__all__ = ["Finished", "Pair", "Started", "judge", "judge_all"]

Step = tuple[str, str]
"""A part of a comparison with its own time limit: an engine and a model, with the kind of the inputs."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

ROUNDING: Final = 4
"""A difference of up to so many times that of onnxruntime's own optimizations is rounding."""

LARGEST_NOISE: Final = 1e-3
"""The largest difference of onnxruntime's own optimizations that is taken for rounding."""

NO_KERNEL: Final = "NOT_IMPLEMENTED"
"""Part of the errors of onnxruntime for valid models with an operator, or a type of an operator, that it lacks."""

MAX_MEMORY: Final = 2**32
"""Bytes that an evaluation may allocate, in addition to eight times the size of the model. Only Linux enforces it."""

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
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Shapes of random inputs by name, in place of the declared ones."""
    lost: dict[Step, Evaluation] = field(default_factory=dict[Step, Evaluation])
    """The failures of steps that ended the worker process. They are not repeated."""


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

    Raises:
        ValueError: if shapes are given that do not fit the model.

    """
    verdict = _judge(pair, report)
    if verdict.status is Status.NEITHER and pair.inputs is None:
        freed = _with_free_zeros(pair)
        return verdict if freed is None else _judge(freed, report)
    return verdict


def _with_free_zeros(pair: Pair) -> Pair | None:
    """Return the pair with dynamic dimensions in place of sizes of 0.

    Return None if no input has one. Some exporters write 0 for a dimension that may have any size, and onnxruntime
    then takes no other.
    """
    changed: list[bytes] = []
    found = False
    for data in (pair.before, pair.after):
        try:
            model = parsed(data)
        except ValueError:
            return None
        for info in model.graph.input:
            for dim in info.type.tensor_type.shape.dim:
                if dim.HasField("dim_value") and dim.dim_value == 0:
                    dim.ClearField("dim_value")
                    found = True
        changed.append(model.SerializeToString())
    return replace(pair, before=changed[0], after=changed[1]) if found else None


def _judge(pair: Pair, report: Callable[[Step], None]) -> Verdict:
    before = _Model("before", pair.before)
    after = before if pair.before == pair.after else _Model("after", pair.after)
    inputs, kept = before.inputs(), after.inputs()
    if inputs is not None and kept is not None and not inputs <= kept:
        return Verdict(Status.DIFFERENT, f"the model after has no input {min(inputs - kept)!r}")
    verdicts: list[Verdict] = []
    for engine in pair.engines:
        verdicts.append(_EngineRun(pair, engine, report).verdict(before, after))
        status = verdicts[-1].status
        if status is Status.LIMITED:
            # The next engine is slower, and takes more memory.
            break
        if engine == "onnxruntime" and status is Status.ONLY_BEFORE and NO_KERNEL not in verdicts[-1].reason:
            # It runs the model before, so its error is about the result, which the reference evaluator may tolerate.
            return verdicts[-1]
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

    def parsed(self) -> onnx.ModelProto:
        """Return the message of the model.

        Raises:
            ValueError: if the bytes are not an ONNX model.

        """
        if self._parsed is None:
            self._parsed = parsed(self.data)
        return self._parsed

    def inputs(self) -> Set[str] | None:
        """Return the names of the inputs without a default; None if it is no model."""
        try:
            graph = self.parsed().graph
        except ValueError:
            return None
        return {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}

    @cached_property
    def is_random(self) -> bool:
        """Whether the model has random operators."""
        try:
            return _has_random(self.parsed())
        except ValueError:
            return False


def _has_random(model: onnx.ModelProto) -> bool:
    waiting: list[Any] = [model.graph, *model.functions]
    for graph in waiting:  # the list grows in the loop
        for node in graph.node:
            if node.op_type in RANDOM_OPERATORS:
                return True
            for attr in node.attribute:
                waiting += [attr.g] if attr.HasField("g") else []
                waiting += attr.graphs
    return False


class _EngineRun:
    """The evaluations of a pair by one engine."""

    def __init__(self, pair: Pair, engine: Engine, report: Callable[[Step], None]) -> None:
        self._pair = pair
        self._engine: Engine = engine
        self._report = report
        self._runs: dict[_Model, LoadedModel] = {}

    def verdict(self, before: _Model, after: _Model) -> Verdict:
        """Return the verdict on the given inputs, or else on random ones."""
        given = self._pair.inputs
        if given is not None:
            return self._compared(before, after, self._evaluation(before, given), given)
        try:
            search = InputSearch(before.parsed(), self._pair.shapes, self._pair.seed)
        except ValueError as error:
            if self._pair.shapes:
                raise
            return Verdict(Status.NEITHER, f"cannot create inputs: {error}")
        inputs, first = self._first(before, search)
        verdict = self._compared(before, after, first, inputs)
        if verdict.status is Status.EQUAL and before is not after:
            verdict = self._with_other_inputs(before, after, verdict, inputs)
        if verdict.status is Status.EQUAL and search.conditions.count and before is not after:
            verdict = self._with_branches(before, after, verdict, search, inputs)
        return verdict

    def _first(
        self, model: _Model, search: InputSearch, replaced: Mapping[str, Any] = _NOTHING, suffix: str = ""
    ) -> tuple[dict[str, Any], Evaluation]:
        """Return inputs with which a model runs, and its evaluation.

        If there are none, the evaluation has the first error.
        """
        start, failure, inputs = perf_counter(), None, dict[str, Any]()
        for number, candidate in enumerate(search.candidates(replaced)):
            evaluation = self._evaluation(model, candidate, suffix, is_repeated=number > 0)
            if evaluation.outputs is not None:
                search.accept(candidate)
                return candidate, evaluation
            if failure is None:
                failure, inputs = evaluation, candidate
            if evaluation.is_limited or not self._loads(model) or perf_counter() - start > search.seconds:
                break
        return inputs, failure or Evaluation(None, error="there are no inputs")

    def _loads(self, model: _Model) -> bool:
        """Return whether the engine could load a model, so that other inputs may help."""
        run = self._runs.get(model)
        return run is not None and run.is_loaded

    def _compared(
        self, before: _Model, after: _Model, first: Evaluation, inputs: Mapping[str, Any] | bytes, suffix: str = ""
    ) -> Verdict:
        """Return the verdict on these inputs."""
        pair = self._pair
        # Without outputs before there is no verdict, so that a second evaluation would only take as long again.
        second = first if after is before or first.is_limited else self._evaluation(after, inputs, suffix)
        verdict = compare(first, second, pair.expected, pair.rtol, pair.atol)
        if verdict.status is not Status.DIFFERENT:
            return verdict
        rounding = self._rounding(before, first, second, inputs, suffix)
        if rounding:
            return replace(verdict, status=Status.EQUAL, reason=f"{rounding}: {verdict.reason}")
        # Evaluate both once more, in case they contain random operators.
        if not self._differ(first, self._evaluation(before, inputs, f"{suffix} again")):
            return verdict
        if not self._differ(second, self._evaluation(after, inputs, f"{suffix} again")):
            return Verdict(Status.DIFFERENT, "random outputs have become constant", None, verdict.seconds)
        return Verdict(Status.RANDOM, "two evaluations of the model before also differ", None, verdict.seconds)

    def _with_other_inputs(self, before: _Model, after: _Model, verdict: Verdict, inputs: Mapping[str, Any]) -> Verdict:
        """Return the verdict on other inputs, if the outputs show little about the model."""
        attempts = OtherInputs(verdict.dull, verdict.seconds)
        for name, change in attempts:
            changed = {key: changed_input(value, change) for key, value in inputs.items()}
            suffix = f" with {name} inputs"
            other = self._compared(before, after, self._evaluation(before, changed, suffix), changed, suffix)
            if other.status is Status.DIFFERENT:
                return replace(other, reason=f"with {name} inputs, {other.reason}")
            if other.status is Status.EQUAL:
                attempts.learn(other.dull)
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, attempts.remark))))

    def _with_branches(
        self, before: _Model, after: _Model, verdict: Verdict, search: InputSearch, inputs: Mapping[str, Any]
    ) -> Verdict:
        """Return the verdict on inputs that reach the other branches of If nodes."""
        conditions = search.conditions
        reached = conditions.reached(inputs)
        for replaced in conditions.attempts(inputs):
            if conditions.reached({**inputs, **replaced}) <= reached:
                continue
            shown = ", ".join(f"{name}={_shown(value)}" for name, value in replaced.items())
            suffix = f" with {shown}"
            other_inputs, first = self._first(before, search, replaced, suffix)
            if first.outputs is None:
                continue
            other = self._compared(before, after, first, other_inputs, suffix)
            if other.changed:
                return replace(other, reason=f"with {shown}, {other.reason}")
            if other.status is Status.EQUAL:
                reached |= conditions.reached(other_inputs)
        missing = conditions.missing(reached)
        remark = f"no input was found that reaches {missing}" if missing else ""
        return replace(verdict, reason="; ".join(filter(None, (verdict.reason, remark))))

    def _evaluation(
        self, model: _Model, inputs: Mapping[str, Any] | bytes, suffix: str = "", *, is_repeated: bool = False
    ) -> Evaluation:
        """Return the evaluation of one model, on its own copy of the inputs."""
        step = self._engine, model.name + suffix
        if step in self._pair.lost:
            return self._pair.lost[step]
        if not is_repeated:
            self._report(step)
        with memory_limit(MAX_MEMORY + 8 * len(model.data)):
            if model not in self._runs or model.is_random:
                # A session of onnxruntime returns other random numbers at its next run, even if they have a seed.
                self._runs[model] = LOADERS[self._engine](model.data)
            return self._runs[model](_copied(inputs))

    def _rounding(
        self, before: _Model, first: Evaluation, second: Evaluation, inputs: Mapping[str, Any] | bytes, suffix: str
    ) -> str:
        """Return why a difference is rounding; empty if it is not.

        A deep network amplifies last digits. What onnxruntime's own optimizations, which its users run by default,
        change in the outputs of the model before is the measure of that.
        """
        pair = self._pair
        if self._engine != "onnxruntime" or pair.rtol is not None or pair.expected is not None:
            return ""
        step: Step = self._engine, f"{before.name} optimized by it{suffix}"
        if step in pair.lost or first.outputs is None or second.outputs is None or first.names != second.names:
            return ""
        self._report(step)
        with memory_limit(MAX_MEMORY + 8 * len(before.data)):
            own = load_runtime(before.data, "ORT_ENABLE_ALL")(_copied(inputs))
        if own.outputs is None:
            return ""
        noise = {item.where: item.amount for item in differences(first.names, first.outputs, own.outputs)}
        found = differences(first.names, first.outputs, second.outputs)
        is_rounding = all(
            item.near or (item.amount <= ROUNDING * noise.get(item.where, 0.0) and noise[item.where] <= LARGEST_NOISE)
            for item in found
        )
        return "within the rounding of onnxruntime's own optimizations" if is_rounding else ""

    def _differ(self, first: Evaluation, second: Evaluation) -> bool:
        if second.outputs is None:
            return False
        return compare(first, second, None, self._pair.rtol, self._pair.atol).status is Status.DIFFERENT


def _copied(inputs: Mapping[str, Any] | bytes) -> Any:
    return pickle.loads(inputs) if isinstance(inputs, bytes) else deepcopy(inputs)


def _shown(value: Any) -> str:
    """Return the number that an input has everywhere."""
    return str(value.reshape(-1)[0].item())


def _pickled(outcome: Verdict | Exception) -> bytes:
    """Return the pickled outcome; if it cannot be pickled, the error of pickle."""
    try:
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickle propagates any error of the objects
        return pickle.dumps(error)
