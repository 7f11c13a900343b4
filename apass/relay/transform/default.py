"""`relay.Default`: the optimizing passes of TVM's build, in TVM's order."""

from apass.passes.registry import provide_pass
from apass.passes.sequential import Sequential
from apass.relay.ir.module import IRModule
from apass.relay.transform.canonicalize_cast import CanonicalizeCast
from apass.relay.transform.canonicalize_ops import CanonicalizeOps
from apass.relay.transform.combine_parallel.conv2d import CombineParallelConv2D
from apass.relay.transform.combine_parallel.dense import CombineParallelDense
from apass.relay.transform.dead_code_elimination import DeadCodeElimination
from apass.relay.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from apass.relay.transform.fast_math import FastMath
from apass.relay.transform.fold_constant import FoldConstant
from apass.relay.transform.fold_scale_axis.fold_scale_axis import FoldScaleAxis
from apass.relay.transform.infer_type import InferType
from apass.relay.transform.remove_unused_functions import RemoveUnusedFunctions
from apass.relay.transform.simplify_expr import SimplifyExpr
from apass.relay.transform.simplify_inference import SimplifyInference

__all__ = ["Default"]


@provide_pass("relay.Default")
def Default() -> Sequential[IRModule]:
    """Run the passes that make a model smaller and faster at the level of the context.

    - Level 0: types, inference and algebra.
    - From level 2: constant folding.
    - From level 3: common subexpressions and scales.
    - From level 4: passes that change the last digits of results, or that pay off on some machines only.
    """
    passes = [
        RemoveUnusedFunctions(),
        InferType(),
        SimplifyInference(),
        EliminateCommonSubexpr(),
        SimplifyExpr(),
        CombineParallelConv2D(),
        CombineParallelDense(),
        FoldConstant(),
        FoldScaleAxis(),
        CanonicalizeCast(),
        CanonicalizeOps(),
        SimplifyExpr(),
        FastMath(),
        FoldConstant(),
        EliminateCommonSubexpr(),
        DeadCodeElimination(),
        InferType(),
    ]
    return Sequential(passes, name="relay.Default")
