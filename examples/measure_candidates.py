"""Choose the fastest of several equivalent forms of a model by running them.

    pip install "apass[onnx,runtime]"
    python examples/measure_candidates.py                      # 12 models
    python examples/measure_candidates.py --models 40 --backend trio

Each model is a product of three matrices. `(A B) C` and `A (B C)` are equal except for rounding, and which one is
faster depends on their shapes. onnxruntime runs both in the measurement lane, one model at a time, so that measurements
do not disturb each other. A crash of its process does not end the program. A candidate with different outputs is
rejected even if it is fast. The exit status is 1 if a candidate with a tenth of the multiplications was not chosen.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from random import Random
from time import perf_counter
from typing import Any, Final, cast

import anyio
import numpy as np
import onnx
import onnx_ir as ir

import apass
from apass.adapters.onnx import ADAPTER, MAIN, private_copy
from apass.adapters.onnx.outputs import random_inputs

Candidate = Callable[[ir.Model], ir.Model]
"""Returns another form of a model, or the same object if there is none."""

ROUNDS: Final = 7
MAX_RATIO: Final = 0.8
"""A candidate is chosen if it takes at most this fraction of the time; a smaller gain may be noise."""
SIZES: Final = (1, 4, 64, 256, 512)


def measure(models: Sequence[bytes]) -> list[tuple[float, float]]:
    """Run models alternately on the same random inputs.

    Returns:
        For each model, the shortest time in seconds, and the distance of its outputs from those of the first model.
    """
    # Imported here because only the worker process needs onnxruntime.
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"]) for model in models]
    inputs = random_inputs(models[0])
    outputs = [session.run(None, inputs) for session in sessions]
    best = [float("inf")] * len(models)
    for _ in range(ROUNDS):
        for index, session in enumerate(sessions):
            start = perf_counter()
            session.run(None, inputs)
            best[index] = min(best[index], perf_counter() - start)
    return [(seconds, distance(outputs[0], result)) for seconds, result in zip(best, outputs, strict=True)]


def distance(expected: Sequence[Any], outputs: Sequence[Any]) -> float:
    """Return the largest relative difference of outputs, infinite if shapes differ."""
    if [array.shape for array in expected] != [array.shape for array in outputs]:
        return float("inf")
    pairs = zip(expected, outputs, strict=True)
    return max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)) for a, b in pairs)


def choose_fastest(*candidates: Candidate, timeout: float = 300.0) -> apass.Pass[ir.Model]:
    """Return the pass that replaces a model by its fastest equal candidate, if any."""

    @apass.module_pass(opt_level=2)
    async def ChooseFastest(mod: ir.Model, ctx: apass.PassContext) -> ir.Model:
        forms = [mod, *(form for candidate in candidates if (form := candidate(mod)) is not mod)]
        if len(forms) == 1:
            return mod
        models = [ADAPTER.dumps(form) for form in forms]
        async with ctx.measuring() as measurement:
            with anyio.fail_after(timeout):
                # On a timeout, the worker is killed.
                measurements = await measurement.call(measure, models)
        equal = [index for index, (_, error) in enumerate(measurements) if error < 1e-4]
        fastest = min(equal, key=lambda index: measurements[index][0])
        ratio = measurements[fastest][0] / measurements[0][0]
        if ratio > MAX_RATIO:
            rejected = len(measurements) - len(equal)
            ctx.remark(apass.Remark.missed("Kept", f"no candidate is faster; {rejected} with different outputs"))
            return mod
        ctx.remark(apass.Remark.passed("Chosen", f"candidate {fastest} takes {ratio:.0%} of the time", ratio=ratio))
        return forms[fastest]

    return ChooseFastest


def reassociate(mod: ir.Model) -> ir.Model:
    """Return the model with `(A B) C` computed as `A (B C)`."""
    graph = private_copy(mod.graph)
    for outer in graph:
        inner = outer.inputs[0].producer() if outer.op_type == "MatMul" and outer.inputs[0] is not None else None
        if inner is not None and inner.op_type == "MatMul" and len(inner.outputs[0].uses()) == 1:
            right = ir.node("MatMul", [inner.inputs[1], outer.inputs[1]])
            graph.insert_before(outer, right)
            outer.replace_input_with(0, inner.inputs[0])
            outer.replace_input_with(1, right.outputs[0])
            graph.remove(inner, safe=True)
            return ADAPTER.replace(mod, {MAIN: graph})
    return mod


Shape = tuple[int, int, int, int]
"""The sizes of `A[m, k] B[k, n] C[n, p]`."""


def chain(shape: Shape) -> ir.Model:
    """Return the model that computes `(A B) C`."""
    m, k, n, p = shape
    proto = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["": 18]>
        g (float[{m}, {k}] a, float[{k}, {n}] b, float[{n}, {p}] c) => (float[{m}, {p}] y) {{
            ab = MatMul(a, b)
            y = MatMul(ab, c)
        }}""")
    return ir.from_proto(proto)


def multiplications(shape: Shape) -> tuple[int, int]:
    """Return the numbers of multiplications of `(A B) C` and of `A (B C)`."""
    m, k, n, p = shape
    return m * k * n + m * n * p, k * n * p + m * k * p


def random_shapes(count: int) -> list[Shape]:
    """Return `count` random shapes; for some, the order matters much."""
    random = Random(1)
    return [cast("Shape", tuple(random.choices(SIZES, k=4))) for _ in range(count)]


async def optimize(shapes: Sequence[Shape]) -> int:
    """Print a line for each model; return how many large gains were missed."""
    models = [chain(shape) for shape in shapes]
    missed = 0
    async with apass.optimize_stream(models, choose_fastest(reassociate)) as outcomes:
        async for outcome in outcomes:
            index = int(outcome.name)
            shape = shapes[index]
            left, right = multiplications(shape)
            is_changed = outcome.unwrap() is not models[index]
            missed += not is_changed and left > 1e7 and left > 10 * right
            print(f"{shape!s:22} {left:>12,} or {right:>12,} multiplications: {'A (B C)' if is_changed else '(A B) C'}")
    print(f"{len(shapes)} models, {missed} missed")
    return missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=positive, default=12)
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    return 1 if anyio.run(optimize, random_shapes(options.models), backend=options.backend) else 0


def positive(text: str) -> int:
    """Return the int that `text` denotes.

    Raises:
        ValueError: if it is less than 1; argparse reports it.
    """
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
