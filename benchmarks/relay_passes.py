"""FoldConstant, EliminateCommonSubexpr and DeadCodeElimination on DenseNet-121, beside the nearest passes of onnx_ir.

Both are given the same network, with weights drawn at random, and run from synchronous code. onnx_ir works in place, so
it is given a fresh copy each time, made outside of what is measured.
"""

import anyio
import onnx_ir as ir
from measure import compare
from onnx_ir.passes import common

import apass
from apass.relay.frontend import from_onnx
from apass.relay.type_inference.infer import infer_module
from examples.relay_light_models import LIGHT, load_light_model

BOUND = 1.0
"""At most what the passes of onnx_ir take."""
ROUNDS = 15


async def main() -> None:
    proto = load_light_model(LIGHT / "light_densenet121.onnx")
    mod = infer_module(from_onnx(proto, freeze_params=True)[0])
    pipeline = apass.parse_pipeline("FoldConstant,EliminateCommonSubexpr,DeadCodeElimination")
    copies = iter([ir.from_proto(proto) for _ in range(ROUNDS + 2)])  # two jobs more tell how long one takes
    theirs = ir.passes.Sequential(
        common.LiftConstantsToInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.RemoveUnusedNodesPass(),
    )

    async def ours() -> object:
        async with apass.PassContext(opt_level=3):
            return await pipeline(mod)

    def other() -> object:
        return theirs(next(copies))

    await compare("constants, common subexpressions, dead code", ours, other, BOUND, "onnx_ir", rounds=ROUNDS)


anyio.run(main)
