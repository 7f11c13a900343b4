"""Evaluation of one ONNX model: by the reference evaluator, or by onnxruntime."""

import warnings
from collections.abc import Callable, Mapping, Sequence
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

__all__ = ["ENGINES", "Engine", "Evaluation", "Inputs", "evaluate", "evaluate_with_runtime", "runtime_session"]

Inputs = Sequence[Any] | Mapping[str, Any]
"""Values of the inputs of a model, in order or by name."""

Engine = Literal["reference", "onnxruntime"]
"""What evaluates a model: ONNX's reference evaluator, or onnxruntime without graph optimizations."""

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


class _Evaluator(ReferenceEvaluator):
    """An evaluator that uses the kernels of this package, also in local functions."""

    def __init__(self, proto: Any, **options: Any) -> None:
        # For a local function, onnx creates an evaluator of this class without `new_ops`.
        arguments: dict[str, Any] = {"new_ops": [*kernels.KERNELS, *old_versions.KERNELS], **options}
        super().__init__(proto, **arguments)


def evaluate(model: bytes | onnx.ModelProto, inputs: Inputs) -> Evaluation:
    """Evaluate a model with the reference evaluator.

    Errors are not raised; they are part of the result.
    """
    start = perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Operators make numpy warn of invalid values, such as log(-1). The outputs contain them (NaN, inf).
        warnings.simplefilter("ignore")
        try:
            proto = onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model
            evaluator: Any = _Evaluator(proto)
            feeds = inputs if isinstance(inputs, Mapping) else dict(zip(evaluator.input_names, inputs, strict=False))
            outputs = evaluator.run(None, {name: plain(value) for name, value in feeds.items()})
        except Exception as error:
            # The evaluator implements about two hundred operators, which raise errors of many types.
            return Evaluation(None, error=_short(error), seconds=perf_counter() - start)
    return Evaluation(tuple(map(plain, outputs)), tuple(evaluator.output_names), seconds=perf_counter() - start)


def evaluate_with_runtime(model: bytes, inputs: Inputs) -> Evaluation:
    """Evaluate a model with onnxruntime.

    It supports operators that the reference evaluator lacks.
    No graph optimization is applied. Errors are not raised; they are part of the result.
    """
    start = perf_counter()
    try:
        session = runtime_session(model, "ORT_DISABLE_ALL")
        expected = [value.name for value in session.get_inputs()]
        feeds = inputs if isinstance(inputs, Mapping) else dict(zip(expected, inputs, strict=False))
        outputs = session.run(None, {name: plain(value) for name, value in feeds.items() if name in expected})
    except Exception as error:
        # Its errors are of types that only onnxruntime defines.
        return Evaluation(None, error=_short(error), seconds=perf_counter() - start)
    names = tuple(value.name for value in session.get_outputs())
    return Evaluation(tuple(map(plain, outputs)), names, seconds=perf_counter() - start)


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


ENGINES: Final[Mapping[Engine, Callable[[bytes, Inputs], Evaluation]]] = {
    "reference": evaluate,
    "onnxruntime": evaluate_with_runtime,
}
"""The function of each engine."""


def _short(error: Exception) -> str:
    text = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
