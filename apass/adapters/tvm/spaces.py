"""Named spaces of pipelines for TVM, over which a search goes."""

from typing import Final

__all__ = ["passes"]

LONGEST: Final = 12
"""Maximum number of steps in a sequence."""

FUSION: Final = (
    "tvm.relax.LegalizeOps,tvm.relax.AnnotateTIROpPattern,tvm.relax.FuseOps{fuse_opt_level=?0..4},tvm.relax.FuseTIR"
)
"""The passes that move operators to TIR functions and fuse these. One alone finds little to do."""

CHOSEN: Final = (
    "tvm.relax.AdjustMatmulOrder",
    "tvm.relax.CanonicalizeBindings",
    "tvm.relax.CombineParallelMatmul",
    "tvm.relax.ConvertToDataflow{min_size=?1..4}",
    "tvm.relax.DeadCodeElimination",
    "tvm.relax.DecomposeOpsForInference",
    "tvm.relax.EliminateCommonSubexpr{call_only=?}",
    "tvm.relax.ExpandMatmulOfSum",
    "tvm.relax.ExpandTupleArguments",
    "tvm.relax.FoldBatchnormToConv2D",
    "tvm.relax.FoldConstant",
    "tvm.relax.FuseTransposeMatmul",
    "tvm.relax.InlinePrivateFunctions",
    "tvm.relax.LambdaLift",
    "tvm.relax.LegalizeOps",
    FUSION,
    "tvm.relax.Normalize",
    "tvm.relax.OptimizeLayoutTransform",
    "tvm.relax.RemoveRedundantReshape",
    "tvm.relax.RemoveUnusedOutputs",
    "tvm.relax.RemoveUnusedParameters",
    "tvm.relax.ReorderPermuteDimsAfterConcat",
    "tvm.relax.ReorderTakeAfterMatmul",
    "tvm.relax.SpecializePrimFuncBasedOnCallSite",
    "tvm.relax.TopologicalSort{order=?(depth-first|breadth-first),direction=?(from-inputs|from-outputs)}",
    "tvm.s_tir.CanonicalizeLoop",
    "tvm.s_tir.HoistExpression",
    "tvm.s_tir.HoistIfThenElse",
    "tvm.s_tir.LoopPartition",
    "tvm.s_tir.StmtSimplify",
    "tvm.s_tir.RenormalizeSplitPattern",
    "tvm.tirx.ForceNarrowIndexToInt32",
    "tvm.tirx.RemoveNoOp",
    "tvm.tirx.StmtSimplify",
    "tvm.tirx.UnrollLoop",
    "tvm.tirx.VectorizeLoop",
    "tvm.tirx.ConvertSSA",
)
"""The steps of `passes`, with holes for options that a user may want to choose.

The passes that approximate, compute in a lower precision, call libraries, or lower to TVM's virtual machine are left
out. So is `DataflowUseInplaceCalls`: a later `TopologicalSort` may move a use behind the call that overwrites its
value. `tirx.CommonSubexprElim` fails on functions that can be scheduled, as those of `LegalizeOps` are.
"""


def passes() -> str:
    """Return the space of sequences of passes on Relax and TIR that keep the meaning.

    Their results can be compiled, and optimized further.
    """
    return f"?{{1..{LONGEST}}}({'|'.join(CHOSEN)})"
