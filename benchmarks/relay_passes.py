"""Three Relay passes on DenseNet-121, compared with similar passes of onnx_ir.

The passes are FoldConstant, EliminateCommonSubexpr and DeadCodeElimination. Both libraries get the same network with
random weights. onnx_ir works in place, so it gets a new copy each time, made before the
measurement.

    python -m benchmarks.relay_passes [--rounds 15]
"""

import sys

import onnx_ir as ir
from onnx_ir.passes import common

import apass
from apass.relay.frontend import from_onnx
from apass.relay.type_inference.infer import infer_module
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare
from examples.relay_light_models import LIGHT, load_light_model

BOUND = 1.0
"""Largest acceptable ratio to the time of onnx_ir."""


async def densenet(rounds: int) -> None:
    """Compare three passes on DenseNet-121 with those of onnx_ir."""
    proto = load_light_model(LIGHT / "light_densenet121.onnx")
    mod = infer_module(from_onnx(proto, freeze_params=True)[0])
    pipeline = apass.parse_pipeline("FoldConstant,EliminateCommonSubexpr,DeadCodeElimination")
    copies = iter([ir.from_proto(proto) for _ in range(3 * rounds + 2)])  # two more runs determine the size of a sample
    onnx_ir_pipeline = ir.passes.Sequential(
        common.LiftConstantsToInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
    )

    async def ours() -> object:
        async with apass.PassContext(opt_level=3):
            return await pipeline(mod)

    def other() -> object:
        return onnx_ir_pipeline(next(copies))

    await compare("constants, common subexpressions, dead code", ours, other, BOUND, "onnx_ir", rounds)


BENCHMARKS = (Benchmark(densenet, rounds=5),)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
