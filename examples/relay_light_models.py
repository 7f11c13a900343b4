"""Import the nine big networks of the onnx package into Relay, optimize all in one event loop, and compare the numbers.

    python examples/relay_light_models.py              # squeezenet and shufflenet
    python examples/relay_light_models.py --full       # all nine, ResNet-50 and VGG-19 among them: some minutes

The networks come without weights, so these are drawn at random, as are the inputs. Each is evaluated twice: before, by
ONNX's own reference evaluator, and after, by Relay's. Exit status 1 if any differs by more than a float tolerance.
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
"""Where the networks are."""
NEWER: Final = 15
"""The version of ONNX's operators that the reference evaluator gets right."""
Floats: TypeAlias = npt.NDArray[np.float32]
QUICK: Final = ("light_squeezenet", "light_shufflenet")
"""Those that take seconds."""
PROCESSES: Final = ProcessExecutor()
"""Where the reference evaluator works."""


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
class Verdict:
    """What came of one network."""

    name: str
    """Which."""
    before: int
    """How many calls it makes as it was imported."""
    after: int
    """How many calls it makes optimized."""
    found: str
    """How its outputs differ from the reference; nothing if they do not."""


def load_light_model(path: Path) -> onnx.ModelProto:
    """Return a network with weights drawn at random, the same ones every time, in the places of its constant ones."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    graph = model.graph
    shapes = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    drawn = {node.output[0] for node in graph.node if node.op_type == "ConstantOfShape"}
    weights = [
        from_array(_draw([int(size) for size in shapes[node.input[0]]], seed), node.output[0])
        for seed, node in enumerate(node for node in graph.node if node.output[0] in drawn)
    ]
    kept = [node for node in graph.node if node.output[0] not in drawn]
    used = {name for node in kept for name in node.input}
    initializers = [tensor for tensor in graph.initializer if tensor.name in used]
    inputs = [one for one in graph.input if one.name in used and one.name not in shapes]
    del graph.node[:], graph.initializer[:], graph.input[:]
    graph.node.extend(kept)
    graph.input.extend(inputs)
    graph.initializer.extend([*initializers, *weights])
    model.ir_version = 8  # since 4, an initializer need not be an input as well
    last = graph.node[-1]
    if last.op_type == "Softmax":
        # Probabilities are often all but 0 and 1; what they are made of tells more.
        graph.output.append(onnx.ValueInfoProto(name=last.input[0]))
    return model


def _draw(shape: Sequence[int], seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    # Of this spread, activations neither vanish nor explode; vectors are scales and variances, and so positive.
    spread = float(np.sqrt(6 / np.prod(shape[1:])))
    low, high = (-spread, spread) if len(shape) > 1 else (0.5, 1.5)
    return rng.uniform(low, high, shape).astype(np.float32)


def draw_inputs(model: onnx.ModelProto) -> dict[str, Any]:
    """Return a value for each input of a network, the same ones every time."""
    rng = np.random.default_rng(0)
    return {
        one.name: rng.standard_normal([dim.dim_value for dim in one.type.tensor_type.shape.dim]).astype(np.float32)
        for one in model.graph.input
    }


def reference_outputs(path: str) -> list[Any]:
    """Return what ONNX's own evaluator makes of a network; this runs in a process of its own.

    The networks are of version 9, whose BatchNormalization and Softmax that evaluator gets wrong: the one trains, the
    other goes over the last axis alone. So it is given the network in a newer version, and an LRN that is right.
    """
    model = load_light_model(Path(path))
    evaluator: Any = ReferenceEvaluator(convert_version(model, NEWER), new_ops=[LRN])
    return list(evaluator.run(None, draw_inputs(model)))


async def judge(path: Path, before: IRModule, after: IRModule) -> Verdict:
    """Evaluate a network before and after, and say how the two differ."""
    expected = await PROCESSES.call(reference_outputs, str(path))
    arguments = list(draw_inputs(load_light_model(path)).values())
    got = await anyio.to_thread.run_sync(lambda: evaluate(after, *arguments))
    wanted = expected[0] if len(expected) == 1 else tuple(expected)
    return Verdict(path.stem, calls(before), calls(after), difference(wanted, got))


def calls(mod: IRModule) -> int:
    """Return how many calls a module makes."""
    return sum(isinstance(node, Call) for func in mod.functions.values() for node in post_order(func))


def imported(paths: Sequence[Path]) -> dict[Path, IRModule]:
    """Return the networks as Relay, their weights as constants."""
    return {path: infer_module(from_onnx(load_light_model(path), freeze_params=True)[0]) for path in paths}


async def check(paths: Sequence[Path]) -> list[Verdict]:
    """Optimize the networks, all at once, and judge each; a network at a time, for the weights take much memory."""
    modules = imported(paths)
    async with apass.PassContext(opt_level=3):
        optimized: Mapping[Path, IRModule] = await apass.optimize_all(modules, apass.parse_pipeline("relay.Default"))
    verdicts: list[Verdict] = []
    for path, before in modules.items():
        verdicts.append(await judge(path, before, optimized[path]))
        print(line(verdicts[-1]), flush=True)
    return verdicts


def line(verdict: Verdict) -> str:
    """Return a verdict as a line of the report."""
    outcome = verdict.found or "same outputs"
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
    changed = [verdict.name for verdict in verdicts if verdict.found]
    print(f"{len(verdicts)} networks, {len(verdicts) - len(changed)} with the same outputs, {len(changed)} changed")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
