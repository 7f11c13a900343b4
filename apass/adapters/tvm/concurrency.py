"""The passes of TVM 0.27 that run function by function, and at the same time.

A pass that is not listed runs on the whole module, alone. That is always right, and needed for the passes that call
Python, such as `LegalizeOps`: TE keeps a global stack of tags ("nested op_tag is not allowed"), and the builders of
TVMScript keep a stack for each thread.
"""

from typing import Any, Final

from apass.adapters.tvm.library import tvm

__all__ = ["is_concurrent", "is_fatal", "is_local"]

LOCAL: Final = frozenset(
    {
        "AdjustMatmulOrder",
        "AnnotateTIROpPattern",
        "CanonicalizeRelaxBindings",
        "CanonicalizeTIRVariables",
        "ConvertToDataflow",
        "DecomposeOps",
        "EliminateCommonSubexpr",
        "ExpandMatmulOfSum",
        "KillAfterLastUse",
        "LowerAllocTensor",
        "LowerRuntimeBuiltin",
        "MutateOpsForTraining",
        "Normalize",
        "RemovePurityChecking",
        "ReorderPermuteDimsAfterConcat",
        "ReorderTakeAfterMatmul",
        "RewriteDataflowReshape",
        "ToNonDataflow",
        "TopologicalSort",
    }
)
"""Function passes in C++ that use their function, and the TIR functions that it calls."""

CONCURRENT: Final = frozenset(
    {
        "AllocateWorkspace",
        "AttachGlobalSymbol",
        "BundleModelParams",
        "CallTIRRewrite",
        "ComputePrimValue",
        "DataflowInsertInPlaceCalls",
        "DeadCodeElimination",
        "ExpandTupleArgumentsInner",
        "FuseOps",
        "FuseTIRInner",
        "InlinePrivateFunctions",
        "LambdaLift",
        "LiftTransformParamsPostProc",
        "MergeCompositeFunctions",
        "NormalizeGlobalVar",
        "PartitionTransformParams",
        "RealizeVDevice",
        "RemoveUnusedOutputsInner",
        "RemoveUnusedParameters",
        "RewriteCUDAGraph",
        "StaticPlanBlockMemory",
        "VMShapeLower",
        "s_tir.ConvertSSA",
        "s_tir.InstrumentProfileIntrinsics",
        "s_tir.VerifyVTCMLimit",
        "tirx.AnnotateEntryFunc",
        "tirx.BindTarget",
        "tirx.ConvertSSA",
        "tirx.InlinePrivateFunctions",
        "tirx.MakePackedAPI",
        "tirx.SplitHostDevice",
        "tirx.VerifyMemory",
    }
)
"""Module passes in C++ that call no Python."""

_CALLS_PYTHON: Final = frozenset({"tirx.Apply", "tirx.Filter", "tirx.TilePrimitiveDispatch"})
"""Passes over TIR functions that call Python, or remove functions."""


_FATAL: Final = frozenset({"FoldConstant"})
"""Passes that run compiled code, such as the division of integers by zero, which ends the process by SIGFPE.

TVM 0.27 does not catch it (issue 17745 of apache/tvm).
"""


def is_fatal(target: Any) -> bool:
    """Return whether a pass of TVM may end the process for a valid module."""
    return str(target.info.name) in _FATAL and isinstance(target, tvm.relax.transform.FunctionPass)


def is_local(target: Any) -> bool:
    """Return whether a pass of TVM may run on one function at a time."""
    name = str(target.info.name)
    return name in LOCAL or (name.startswith(("tirx.", "s_tir.")) and name not in _CALLS_PYTHON)


def is_concurrent(target: Any) -> bool:
    """Return whether a pass of TVM may run in several threads at once."""
    return str(target.info.name) in CONCURRENT or is_local(target)
