"""Import the nine big networks that come with onnx as Relay modules, and prove that they compute the same numbers.

    python examples/relay_from_onnx.py                      # all of them, some minutes
    python examples/relay_from_onnx.py squeezenet resnet50  # those with one of these words in the name

They are ResNet-50, DenseNet-121, two Inceptions, VGG-19, SqueezeNet, ShuffleNet, AlexNet and ZFNet, without weights. So
weights and inputs are drawn at random, the same ones every time. What Relay computes is compared with what ONNX's
reference evaluator does: the probabilities, and the numbers that the last layer makes them of.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from apass.relay.evaluator import evaluate
from apass.relay.frontend import from_onnx
from apass.relay.type_infer import infer_module

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Where the models are."""

MODERN = 17
"""The version that models are converted to for the reference evaluator: their own, 9, is not right in it.

It normalizes batches of version 9 as in training, and takes the softmax over the last axis, not from the second one on.
"""

TOLERANCE = 1e-4
"""How far results may be apart, relative to the greatest magnitude."""

Floats = npt.NDArray[np.float32]


class LRN(OpRun):
    """Local response normalization by the definition; the reference evaluator takes the batch for the channels."""

    op_domain = ""

    def _run(self, x: Floats, alpha: float, beta: float, bias: float, size: int) -> tuple[Floats]:
        total = np.zeros_like(x)
        for channel in range(x.shape[1]):
            first, last = max(0, channel - (size - 1) // 2), channel + size // 2
            total[:, channel] = np.sum(x[:, first : last + 1] ** 2, axis=1)
        return (np.asarray(x / (bias + alpha / size * total) ** beta, x.dtype),)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a model came out."""

    name: str
    nodes: int
    params: int
    seconds: tuple[float, float, float]
    """Of the import, of Relay's evaluation and of the reference evaluator's."""
    difference: float
    """How far results are apart at most, relative to the greatest magnitude."""

    @property
    def is_equal(self) -> bool:
        """Whether the results are the same within the tolerance."""
        return self.difference <= TOLERANCE


def load_model(path: Path) -> onnx.ModelProto:
    """Return a model with weights drawn at random, and with the input of its last node as an output too."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    graph = model.graph
    shapes = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    rng = np.random.default_rng(0)
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            weight = drawn_weight(rng, tuple(int(dim) for dim in shapes[node.input[0]]))
            graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    # Probabilities are near 0 or 1: what they are made of says more.
    graph.output.append(helper.make_empty_tensor_value_info(kept[-1].input[0]))
    # Before version 4, weights had to be inputs as well.
    model.ir_version = max(model.ir_version, 8)
    return model


def drawn_weight(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return a weight by which activations neither vanish nor explode; vectors are scales and variances: positive."""
    spread = float(np.sqrt(6 / np.prod(shape[1:])))
    low, high = (-spread, spread) if len(shape) > 1 else (0.5, 1.5)
    return rng.uniform(low, high, shape).astype("float32")


def drawn_inputs(model: onnx.ModelProto) -> dict[str, Floats]:
    """Return an input for each one that is no weight."""
    weights = {one.name for one in model.graph.initializer}
    rng = np.random.default_rng(1)
    return {
        one.name: rng.standard_normal([dim.dim_value for dim in one.type.tensor_type.shape.dim]).astype("float32")
        for one in model.graph.input
        if one.name not in weights
    }


def reference_outputs(model: onnx.ModelProto, inputs: dict[str, Floats]) -> list[Floats]:
    """Return what ONNX's reference evaluator computes."""
    evaluator = cast("Any", ReferenceEvaluator(version_converter.convert_version(model, MODERN), new_ops=[LRN]))
    return list(evaluator.run(None, inputs))


def relay_outputs(model: onnx.ModelProto, inputs: dict[str, Floats]) -> tuple[list[Floats], int, float]:
    """Return what Relay computes, how many weights there are, and how long the import took."""
    start = perf_counter()
    mod, params = from_onnx(model)
    infer_module(mod)
    seconds = perf_counter() - start
    made = evaluate(mod, *inputs.values(), *params.values())
    results = made if isinstance(made, tuple) else (made,)
    return [np.asarray(one, "float32") for one in results], len(params), seconds


def compare(path: Path) -> Comparison:
    """Import a model and compare its outputs."""
    model = load_model(path)
    inputs = drawn_inputs(model)
    times = [perf_counter()]
    made, params, import_seconds = relay_outputs(model, inputs)
    times.append(perf_counter())
    right = reference_outputs(model, inputs)
    times.append(perf_counter())
    difference = max(distances(made, right))
    seconds = (import_seconds, times[1] - times[0] - import_seconds, times[2] - times[1])
    return Comparison(path.stem.removeprefix("light_"), len(model.graph.node), params, seconds, difference)


def distances(made: Sequence[Floats], right: Sequence[Floats]) -> Iterator[float]:
    """Go over the greatest differences, relative to the greatest magnitudes."""
    for one, other in zip(made, right, strict=True):
        assert one.shape == other.shape, f"{one.shape} is not {other.shape}"
        yield float(np.max(np.abs(one - other)) / np.max(np.abs(other)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return 1 if a model computes something else."""
    parser = argparse.ArgumentParser(description="Import the big networks of onnx as Relay modules and evaluate them.")
    parser.add_argument("words", nargs="*", help="only models with one of these in the name")
    given = parser.parse_args(arguments)
    status = 0
    for path in sorted(DATA.glob("*.onnx")):
        if given.words and not any(word in path.stem for word in given.words):
            continue
        one = compare(path)
        seconds = "import {:.2f} s, Relay {:.1f} s, reference {:.1f} s".format(*one.seconds)
        verdict = "equal" if one.is_equal else "DIFFERENT"
        print(f"{one.name:15} {one.nodes:4} nodes {one.params:4} weights  {verdict} ({one.difference:.0e})  {seconds}")
        status |= not one.is_equal
    return status


if __name__ == "__main__":
    sys.exit(main())
