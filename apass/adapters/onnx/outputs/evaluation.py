"""Evaluation of one ONNX model: by the reference evaluator, or by onnxruntime."""

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from time import perf_counter
from typing import Any, Final, Literal

from apass.errors import MissingExtraError

try:
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as _error:
    raise MissingExtraError(f"evaluating ONNX models needs onnx ({_error}): pip install 'apass[onnx]'") from _error

from apass.adapters.onnx.outputs import kernels, old_versions
from apass.adapters.onnx.outputs.comparison import plain
from apass.util.text import short_reason

__all__ = [
    "LOADERS",
    "RANDOM_OPERATORS",
    "Engine",
    "Evaluation",
    "Inputs",
    "LoadedModel",
    "evaluate",
    "evaluate_with_runtime",
    "load_reference",
    "load_runtime",
    "runtime_session",
]

Inputs = Sequence[Any] | Mapping[str, Any]
"""Values of the inputs of a model, in order or by name."""

Engine = Literal["reference", "onnxruntime"]
"""What evaluates a model: ONNX's reference evaluator, or onnxruntime without graph optimizations."""

RANDOM_OPERATORS: Final = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose results may be random."""

OUT_OF_MEMORY: Final = ("bad_alloc", "Failed to allocate memory")
"""Parts of the errors of onnxruntime at the limit of memory."""

LONGEST_REASON: Final = 300
"""Maximum number of characters of an evaluator's error."""


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
    is_limited: bool = False
    """Whether a limit of time or memory ended it, which shows nothing about the model."""


class _Evaluator(ReferenceEvaluator):
    """An evaluator that uses the kernels of this package, also in local functions."""

    def __init__(self, proto: Any, **options: Any) -> None:
        # For a local function, onnx creates an evaluator of this class without `new_ops`.
        arguments: dict[str, Any] = {"new_ops": [*kernels.KERNELS, *old_versions.KERNELS], **options}
        super().__init__(proto, **arguments)


class LoadedModel:
    """A model that an evaluator has loaded; call it with inputs.

    Errors are not raised; they are part of each evaluation.

    Parameters:
        load: loads the model, and returns the names of its inputs and outputs with the evaluator.

    """

    def __init__(self, load: Callable[[], tuple[Sequence[str], Sequence[str], Any]]) -> None:
        start = perf_counter()
        self._error: Exception | None = None
        self._names: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._evaluator: Any = None
        with _quiet():
            try:
                *names, self._evaluator = load()
                self._names = (names[0], names[1])
            except Exception as error:
                # The evaluators raise errors of many types; onnxruntime defines its own.
                self._error = error
        self._loading = perf_counter() - start

    @property
    def is_loaded(self) -> bool:
        """Whether the evaluator has accepted the model."""
        return self._evaluator is not None

    def __call__(self, inputs: Inputs) -> Evaluation:
        """Evaluate the model; the first evaluation includes the time to load."""
        start, self._loading = perf_counter() - self._loading, 0.0
        if self._error is not None:
            return _failed(self._error, start)
        expected, names = self._names
        feeds = inputs if isinstance(inputs, Mapping) else dict(zip(expected, inputs, strict=False))
        with _quiet():
            try:
                known = {name: plain(value) for name, value in feeds.items() if name in expected}
                outputs = self._evaluator.run(None, known)
            except Exception as error:
                return _failed(error, start)
        return Evaluation(tuple(map(plain, outputs)), tuple(names), seconds=perf_counter() - start)


def _failed(error: Exception, start: float) -> Evaluation:
    is_limited = isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)
    return Evaluation(None, error=_short(error), seconds=perf_counter() - start, is_limited=is_limited)


def evaluate(model: bytes | onnx.ModelProto, inputs: Inputs) -> Evaluation:
    """Evaluate a model with the reference evaluator.

    Errors are not raised; they are part of the result.
    """
    return load_reference(model)(inputs)


def evaluate_with_runtime(model: bytes, inputs: Inputs) -> Evaluation:
    """Evaluate a model with onnxruntime.

    It supports operators that the reference evaluator lacks.
    No graph optimization is applied. Errors are not raised; they are part of the result.
    """
    return load_runtime(model)(inputs)


def load_reference(model: bytes | onnx.ModelProto) -> LoadedModel:
    """Load a model into the reference evaluator."""

    def load() -> tuple[Sequence[str], Sequence[str], Any]:
        evaluator: Any = _Evaluator(onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model)
        return evaluator.input_names, evaluator.output_names, evaluator

    return LoadedModel(load)


def load_runtime(model: bytes, level: str = "ORT_DISABLE_ALL") -> LoadedModel:
    """Load a model into onnxruntime, by default without graph optimizations."""

    def load() -> tuple[Sequence[str], Sequence[str], Any]:
        session = runtime_session(model, level)
        names = [value.name for value in session.get_inputs()]
        return names, [value.name for value in session.get_outputs()], session

    return LoadedModel(load)


@contextmanager
def _quiet() -> Generator[None]:
    """Ignore the warnings of numpy.

    Operators make it warn of invalid values, such as log(-1). The outputs contain them (NaN, inf).
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def runtime_session(model: bytes, level: str, threads: int = 1) -> Any:
    """Return an InferenceSession of onnxruntime on the CPU.

    Parameters:
        model: the model.
        level: the name of the level of graph optimizations, such as `"ORT_ENABLE_ALL"`.
        threads: the number of threads of an operator.

    Raises:
        MissingExtraError: if onnxruntime is not installed.

    """
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError as error:
        raise MissingExtraError(f"running a model needs onnxruntime ({error}): pip install 'apass[runtime]'") from error
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


LOADERS: Final[Mapping[Engine, Callable[[bytes], LoadedModel]]] = {
    "reference": load_reference,
    "onnxruntime": load_runtime,
}
"""The function of each engine that loads a model."""


def _short(error: Exception) -> str:
    return short_reason(error, str(error).strip().partition("\n")[0], LONGEST_REASON)
