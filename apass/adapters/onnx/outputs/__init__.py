"""Checks that a pass kept the meaning of an ONNX model.

The models before and after are evaluated in worker processes, which compare their outputs.
"""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from anyio import CapacityLimiter, to_process, to_thread

from apass.core.adapter import adapter_for

# Imported first: its error message names the extra to install.
from apass.adapters.onnx.outputs.evaluation import Engine, Evaluation, Inputs, evaluate  # isort: skip
from apass.adapters.onnx.outputs.batches import judge_in_worker
from apass.adapters.onnx.outputs.comparison import Difference, plain
from apass.adapters.onnx.outputs.inputs import random_inputs
from apass.adapters.onnx.outputs.judging import Pair
from apass.adapters.onnx.outputs.verdict import Status, Verdict, compare

__all__ = [
    "Difference",
    "Engine",
    "Evaluation",
    "Status",
    "Verdict",
    "compare",
    "compare_outputs",
    "evaluate",
    "random_inputs",
]


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
    engines: Sequence[Engine] = ("onnxruntime", "reference"),
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Verdict:
    """Evaluate two models in worker processes, and compare their outputs.

    If the models are identical, only one is evaluated. Concurrent calls with the same limiter share the requests to
    the processes.

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
        limiter: limit of concurrent processes; by default the number of processors.
        engines: what evaluates the models. An engine is used if the engines before it cannot evaluate both models, or
            find a difference although no outputs are `expected`.
        shapes: shapes of random inputs by name; by default the declared ones, with sizes that are found by trial in
            place of dynamic dimensions.

    Raises:
        ValueError: if `shapes` or `inputs` do not fit the inputs of the model.

    """
    limiter = limiter or to_process.current_default_process_limiter()

    def create_pair() -> Pair:
        data = _as_bytes(before)
        return Pair(
            data,
            data if after is before else _as_bytes(after),
            None if inputs is None else pickle.dumps(inputs, pickle.HIGHEST_PROTOCOL),
            None if expected is None else tuple(map(plain, expected)),
            rtol,
            atol,
            seed,
            engines,
            shapes or {},
        )

    return await judge_in_worker(await to_thread.run_sync(create_pair), time_limit, limiter)


def _as_bytes(model: Any) -> bytes:
    return model if isinstance(model, bytes) else adapter_for(model).dumps(model)
