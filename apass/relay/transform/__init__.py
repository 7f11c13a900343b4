"""The Relay passes, under the names that TVM gives them in `relay.transform`.

Importing this package registers all of them. The names of TVM's pass infrastructure are those of `apass` itself,
except:

- `FunctionPass` and `function_pass` run InferType after the functions.
- `PrintIR` writes to the log.
"""

from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.passes.base import ModulePass, Pass
from apass.passes.decorators import module_pass
from apass.passes.sequential import Sequential
from apass.relay.op.layouts.config import LayoutConfig
from apass.relay.transform import mixed_precision
from apass.relay.transform.alter_op_layout import AlterOpLayout
from apass.relay.transform.annotate_spans import AnnotateSpans
from apass.relay.transform.annotate_target import AnnotateTarget
from apass.relay.transform.autodiff.first_order import FirstOrderGradient
from apass.relay.transform.autodiff.gradient import gradient
from apass.relay.transform.build_config import build_config
from apass.relay.transform.canonicalize_cast import CanonicalizeCast
from apass.relay.transform.canonicalize_ops import CanonicalizeOps
from apass.relay.transform.change_batch import ChangeBatch
from apass.relay.transform.combine_parallel.batch_matmul import CombineParallelBatchMatmul
from apass.relay.transform.combine_parallel.batching_ops import BatchingOps
from apass.relay.transform.combine_parallel.conv2d import CombineParallelConv2D
from apass.relay.transform.combine_parallel.dense import CombineParallelDense
from apass.relay.transform.convert_layout.convert_layout import ConvertLayout
from apass.relay.transform.dead_code_elimination import DeadCodeElimination
from apass.relay.transform.decorators import function_pass
from apass.relay.transform.default import Default
from apass.relay.transform.defunctionalization import Defunctionalization
from apass.relay.transform.dynamic_to_static import DynamicToStatic
from apass.relay.transform.eliminate_common_subexpr import EliminateCommonSubexpr
from apass.relay.transform.eta_expand import EtaExpand
from apass.relay.transform.fast_math import FastMath
from apass.relay.transform.fold_constant import (
    ConstantChecker,
    ConstantFolder,
    FoldConstant,
    FoldConstantExpr,
    fold_constant,
)
from apass.relay.transform.fold_explicit_padding import FoldExplicitPadding
from apass.relay.transform.fold_scale_axis.backward import BackwardFoldScaleAxis
from apass.relay.transform.fold_scale_axis.fold_scale_axis import FoldScaleAxis
from apass.relay.transform.fold_scale_axis.forward import ForwardFoldScaleAxis
from apass.relay.transform.function_pass import FunctionPass
from apass.relay.transform.fuse_ops.defuse import DefuseOps
from apass.relay.transform.fuse_ops.fuse_ops import FuseOps
from apass.relay.transform.infer_type import InferType, InferTypeLocal
from apass.relay.transform.inline import Inline
from apass.relay.transform.lambda_lift import LambdaLift
from apass.relay.transform.lazy_gradient_init import LazyGradientInit
from apass.relay.transform.legalize import Legalize
from apass.relay.transform.merge_compiler_regions import MergeCompilerRegions
from apass.relay.transform.merge_composite import MergeComposite
from apass.relay.transform.normal_forms.anf import ToANormalForm, ToANormalFormExpr
from apass.relay.transform.normal_forms.basic_block import ToBasicBlockNormalForm
from apass.relay.transform.normal_forms.graph import ToGraphNormalForm
from apass.relay.transform.partial_eval.partial_eval import PartialEvaluate
from apass.relay.transform.partition_graph import PartitionGraph
from apass.relay.transform.print_ir import PrintIR
from apass.relay.transform.recast import recast
from apass.relay.transform.remove_unused_functions import RemoveUnusedFunctions
from apass.relay.transform.simplify_expr import SimplifyExpr
from apass.relay.transform.simplify_fc_transpose import SimplifyFCTranspose
from apass.relay.transform.simplify_inference import SimplifyInference
from apass.relay.transform.split_args import SplitArgs
from apass.relay.transform.support.run_for_tests import run_on
from apass.relay.transform.to_cps import ToCPS, to_cps, un_cps
from apass.relay.transform.to_mixed_precision import ToMixedPrecision

__all__ = [
    "AlterOpLayout",
    "AnnotateSpans",
    "AnnotateTarget",
    "BackwardFoldScaleAxis",
    "BatchingOps",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "ChangeBatch",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ConstantChecker",
    "ConstantFolder",
    "ConvertLayout",
    "DeadCodeElimination",
    "Default",
    "Defunctionalization",
    "DefuseOps",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "EtaExpand",
    "FastMath",
    "FirstOrderGradient",
    "FoldConstant",
    "FoldConstantExpr",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FunctionPass",
    "FuseOps",
    "InferType",
    "InferTypeLocal",
    "Inline",
    "LambdaLift",
    "LayoutConfig",
    "LazyGradientInit",
    "Legalize",
    "MergeCompilerRegions",
    "MergeComposite",
    "ModulePass",
    "PartialEvaluate",
    "PartitionGraph",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrintIR",
    "RemoveUnusedFunctions",
    "Sequential",
    "SimplifyExpr",
    "SimplifyFCTranspose",
    "SimplifyInference",
    "SplitArgs",
    "ToANormalForm",
    "ToANormalFormExpr",
    "ToBasicBlockNormalForm",
    "ToCPS",
    "ToGraphNormalForm",
    "ToMixedPrecision",
    "build_config",
    "fold_constant",
    "function_pass",
    "gradient",
    "mixed_precision",
    "module_pass",
    "recast",
    "run_on",
    "to_cps",
    "un_cps",
]
