"""Import the big ONNX test networks into Relay, optimize them, compare outputs.

    pip install "apass[onnx,relay]"
    python examples/relay_light_models.py              # squeezenet and shufflenet
    python examples/relay_light_models.py --full       # all nine, ResNet-50 and VGG-19 among them: some minutes

The networks come without weights, so these are drawn at random, as are the inputs. All are optimized in one event loop.
Each is evaluated twice: before, by ONNX's reference evaluator, and after, by Relay's interpreter. The exit status is 1
if any outputs differ by more than a float tolerance.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt
import onnx
from onnx.numpy_helper import from_array, to_array
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.version_converter import convert_version

import apass
from apass.executors import ProcessExecutor
from apass.relay.expr import Call
from apass.relay.frontend import from_onnx
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.type_inference.infer import infer_module

LIGHT: Final = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Folder of the networks."""
NEWER: Final = 15
"""Version of ONNX operators that the reference evaluator implements correctly."""
Floats: TypeAlias = npt.NDArray[np.float32]
QUICK: Final = ("light_squeezenet", "light_shufflenet")
"""Networks that take seconds."""
PROCESSES: Final = ProcessExecutor()
"""Processes of the reference evaluator."""


class LRN(OpRun):
    """Local response normalization by its definition.

    The reference evaluator uses the batch axis for the channels.
    """

    op_domain = ""

    def _run(self, x: Floats, alpha: float, beta: float, bias: float, size: int) -> tuple[Floats]:
        total = np.zeros_like(x)
        for channel in range(x.shape[1]):
            first, last = max(0, channel - (size - 1) // 2), channel + size // 2
            total[:, channel] = np.sum(x[:, first : last + 1] ** 2, axis=1)
        return (np.asarray(x / (bias + alpha / size * total) ** beta, x.dtype),)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Comparison of one network."""

    name: str
    """Name of the network."""
    before: int
    """Number of calls as imported."""
    after: int
    """Number of calls after optimization."""
    difference: str
    """How the outputs differ from the reference; empty if they do not."""


def load_light_model(path: Path) -> onnx.ModelProto:
    """Return a network with reproducible random weights for its constant ones."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    graph = model.graph
    shapes = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    drawn = {node.output[0] for node in graph.node if node.op_type == "ConstantOfShape"}
    weights = [
        from_array(_draw([int(size) for size in shapes[node.input[0]]], seed), node.output[0])
        for seed, node in enumerate(node for node in graph.node if node.output[0] in drawn)
    ]
    other_nodes = [node for node in graph.node if node.output[0] not in drawn]
    used = {name for node in other_nodes for name in node.input}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    inputs = [value for value in graph.input if value.name in used and value.name not in shapes]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(other_nodes)
    graph.input.extend(inputs)
    graph.initializer.extend([*initializers, *weights])
    model.ir_version = 8  # from version 4 on, an initializer need not be an input
    last = graph.node[-1]
    if last.op_type == "Softmax":
        # Probabilities are often close to 0 or 1; the logits show smaller differences.
        graph.output.append(onnx.ValueInfoProto(name=last.input[0]))
    return model


def _draw(shape: Sequence[int], seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    # With this spread, activations neither vanish nor explode. Vectors are scales and variances, which are positive.
    spread = float(np.sqrt(6 / np.prod(shape[1:])))
    low, high = (-spread, spread) if len(shape) > 1 else (0.5, 1.5)
    return rng.uniform(low, high, shape).astype(np.float32)


def draw_inputs(model: onnx.ModelProto) -> dict[str, Any]:
    """Return reproducible random values for the inputs of a network."""
    rng = np.random.default_rng(0)
    return {
        value.name: rng.standard_normal([dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }


def reference_outputs(path: str) -> list[Any]:
    """Return the outputs of ONNX's reference evaluator; called in a worker process.

    The networks use operator version 9, which the evaluator computes incorrectly: BatchNormalization trains, and
    Softmax normalizes the last axis only. So the network is converted to a newer version, and `LRN` is replaced.
    """
    model = load_light_model(Path(path))
    evaluator: Any = ReferenceEvaluator(convert_version(model, NEWER), new_ops=[LRN])
    return list(evaluator.run(None, draw_inputs(model)))


async def compare(path: Path, before: IRModule, after: IRModule) -> Verdict:
    """Evaluate a network before and after, and return the difference."""
    expected = await PROCESSES.call(reference_outputs, str(path))
    arguments = list(draw_inputs(load_light_model(path)).values())
    actual = await anyio.to_thread.run_sync(lambda: evaluate(after, *arguments))
    expected_outputs = expected[0] if len(expected) == 1 else tuple(expected)
    return Verdict(path.stem, calls(before), calls(after), difference(expected_outputs, actual))


def calls(mod: IRModule) -> int:
    """Return the number of calls in a module."""
    return sum(isinstance(node, Call) for func in mod.functions.values() for node in post_order(func))


def imported(paths: Sequence[Path]) -> dict[Path, IRModule]:
    """Return the networks as Relay modules with constant weights."""
    return {path: infer_module(from_onnx(load_light_model(path), freeze_params=True)[0]) for path in paths}


async def check(paths: Sequence[Path]) -> list[Verdict]:
    """Optimize the networks concurrently, and compare each with its reference."""
    modules = imported(paths)
    async with apass.PassContext(opt_level=3):
        optimized: Mapping[Path, IRModule] = await apass.optimize_all(modules, apass.parse_pipeline("relay.Default"))
    verdicts: list[Verdict] = []
    # One network at a time: the weights take hundreds of megabytes.
    for path, before in modules.items():
        verdicts.append(await compare(path, before, optimized[path]))
        print(line(verdicts[-1]), flush=True)
    return verdicts


def line(verdict: Verdict) -> str:
    """Return a verdict as a line of the report."""
    outcome = verdict.difference or "same outputs"
    return f"{verdict.name:<24} {verdict.before:>5} calls, {verdict.after:>5} after   {outcome}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="all nine networks")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args(arguments)
    paths = sorted(LIGHT.glob("*.onnx"))
    chosen = paths if options.full else [path for path in paths if path.stem in QUICK]
    verdicts = anyio.run(check, chosen, backend=options.backend)
    changed = [verdict.name for verdict in verdicts if verdict.difference]
    print(f"{len(verdicts)} networks, {len(verdicts) - len(changed)} with the same outputs, {len(changed)} changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
