"""Adapters of the optimizers, which return functions from file to file.

The libraries are imported outside of the returned functions, so that the imports do not count as time. The functions
read the model from a file, optimize it with their defaults, and write it to a file. `skip` has names of parts to leave
out.
"""

from collections.abc import Callable, Collection
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Final

import anyio

import apass

__all__ = [
    "RUNTIME_PARTS",
    "Run",
    "onnxoptimizer",
    "onnxoptimizer_parts",
    "onnxruntime",
    "onnxruntime_parts",
    "onnxscript",
    "onnxscript_parts",
    "onnxsim",
    "onnxsim_parts",
    "onnxslim",
    "onnxslim_parts",
    "pipeline",
]

Run = Callable[[Path, Path], object]
"""Optimizes the model of a file, and writes the result to another file."""

RUNTIME_PARTS: Final = (
    *("ConstantFolding", "ConstantSharing", "CommonSubexpressionElimination", "ConvBNFusion", "ConvMulFusion"),
    *("ConvAddFusion", "ConvAddActivationFusion", "MatMulAddFusion", "MatmulTransposeFusion", "MatMulActivationFusion"),
    *("MatMulScaleFusion", "MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "GemmActivationFusion"),
    *("GemmSumFusion", "GemmTransposeFusion", "ReshapeFusion", "CastChainElimination", "UnsqueezeElimination"),
    *("ExpandElimination", "PreShapeNodeElimination", "NotWhereFusion", "DivMulFusion", "LabelEncoderFusion"),
    *("GatherSliceToSplitFusion", "GatherToSliceFusion", "RemoveDuplicateCastTransformer", "TransposeOptimizer"),
    *("LayerNormFusion", "SimplifiedLayerNormFusion", "SkipLayerNormFusion", "BiasSkipLayerNormFusion"),
    *("EmbedLayerNormFusion", "AttentionFusion", "GeluFusionL1", "GeluFusionL2", "BiasGeluFusion", "FastGeluFusion"),
    *("QuickGeluFusion", "BiasSoftmaxFusion", "BiasDropoutFusion", "SliceConcatToSpaceToDepthFusion"),
    *("ClipQuantRewrite", "ReluQuantRewrite", "QDQPropagationTransformer", "QDQSelectorActionTransformer"),
    *("QDQS8ToU8Transformer", "QDQFinalCleanupTransformer", "NchwcTransformer", "Avx2WeightS8ToU8Transformer"),
)
"""Names of onnxruntime's optimizers; there is no function that lists them."""


def pipeline(skip: Collection[str], name: str, level: str) -> Run:
    """Return the run of a registered pipeline of apass at a level."""
    from apass.adapters.onnx import load_model, model_to_bytes  # only this tool needs it

    pass_: apass.Pass[Any] = apass.get_pass(name)

    async def optimize(source: Path, target: Path) -> None:
        model = load_model(source)
        async with apass.PassContext(opt_level=int(level), disabled_pass=list(skip)):
            result = await pass_(model)
        # As the command line does, copy a model that has not changed.
        data = await anyio.Path(source).read_bytes() if result is model else model_to_bytes(result)
        await anyio.Path(target).write_bytes(data)

    return lambda source, target: anyio.run(optimize, source, target)


def onnxslim(skip: Collection[str]) -> Run:
    """Return the run of onnxslim."""
    library: Any = import_module("onnxslim")
    onnx: Any = import_module("onnx")
    settings = set(_slim_settings())
    options: dict[str, Any] = {
        "no_shape_infer": "shape_inference" in skip,
        "skip_optimizations": [name for name in skip if name in settings],
        "skip_fusion_patterns": [name for name in skip if name not in settings and name != "shape_inference"],
    }
    used = {name: value for name, value in options.items() if value}
    return lambda source, target: onnx.save(library.slim(str(source), **used), target)


def onnxslim_parts() -> list[str]:
    """Return the parts that onnxslim can leave out."""
    registry: Any = import_module("onnxslim.core.pattern.registry")
    return ["shape_inference", *registry.DEFAULT_FUSION_PATTERNS, *_slim_settings()]


def _slim_settings() -> list[str]:
    settings: Any = import_module("onnxslim.core.optimization").OptimizationSettings
    return list(settings.keys())


def onnxscript(skip: Collection[str]) -> Run:
    """Return the run of onnxscript's optimizer."""
    library: Any = import_module("onnxscript.optimizer")
    onnx_ir: Any = import_module("onnx_ir")
    rewriter: Any = import_module("onnxscript.rewriter")

    def change_nothing(_: Any, model: Any) -> Any:
        return onnx_ir.passes.PassResult(model, modified=False)

    for name, owner in _script_passes().items():
        if name in skip:
            owner.call = change_nothing
    if skip:
        rules = tuple(rule for rule in rewriter._DEFAULT_REWRITE_RULES if _rule_name(rule) not in skip)
        if rules:
            rewriter._DEFAULT_REWRITE_RULES = rules
        else:
            # An empty list of rules is an error.
            rewriter.RewritePass.call = change_nothing

    def optimize(source: Path, target: Path) -> None:
        model: Any = onnx_ir.load(source)
        library.optimize(model)
        onnx_ir.save(model, target)

    return optimize


def onnxscript_parts() -> list[str]:
    """Return the passes and rewrite rules of onnxscript."""
    rewriter: Any = import_module("onnxscript.rewriter")
    rules = dict.fromkeys(_rule_name(rule) for rule in getattr(rewriter, "_DEFAULT_REWRITE_RULES", ()))
    return [*rules, *_script_passes()]


def _script_passes() -> dict[str, Any]:
    """Return the classes of the passes; it has no option to leave one out."""
    common: Any = import_module("onnx_ir.passes.common")
    folding: Any = import_module("onnxscript.optimizer._constant_folding")
    names = [
        *("Inline", "RemoveUnusedNodes", "LiftConstantsToInitializers", "LiftSubgraphInitializersToMainGraph"),
        *("DeduplicateInitializers", "CommonSubexpressionElimination", "OutputFix", "NameFix"),
    ]
    return {"FoldConstants": folding.FoldConstantsPass, **{name: getattr(common, f"{name}Pass") for name in names}}


def _rule_name(rule: Any) -> str:
    return str(getattr(rule, "name", None) or type(rule).__name__)


def onnxsim(skip: Collection[str]) -> Run:
    """Return the run of onnxsim."""
    library: Any = import_module("onnxsim")
    onnx: Any = import_module("onnx")
    options: dict[str, Any] = {
        "skip_constant_folding": "constant_folding" in skip,
        "skip_shape_inference": "shape_inference" in skip,
        "skipped_optimizers": [name for name in skip if name not in ("constant_folding", "shape_inference")],
    }
    used = {name: value for name, value in options.items() if value}
    if "certify" in signature(library.simplify).parameters:
        # The proof with Z3 runs only if that is installed, and would count as time of the optimizer.
        used["certify"] = False
    return lambda source, target: onnx.save(library.simplify(onnx.load(source), **used)[0], target)


def onnxsim_parts() -> list[str]:
    """Return the parts that onnxsim can leave out.

    It has the passes of onnxoptimizer. If that is not installed, their names are unknown.
    """
    try:
        passes = onnxoptimizer_parts()
    except ImportError:
        passes = []
    return [*passes, "constant_folding", "shape_inference"]


def onnxoptimizer(skip: Collection[str]) -> Run:
    """Return the run of onnxoptimizer."""
    library: Any = import_module("onnxoptimizer")
    onnx: Any = import_module("onnx")
    passes = [name for name in onnxoptimizer_parts() if name not in skip] if skip else None
    return lambda source, target: onnx.save(library.optimize(onnx.load(source), passes), target)


def onnxoptimizer_parts() -> list[str]:
    """Return the passes that onnxoptimizer runs by default."""
    return list(import_module("onnxoptimizer").get_fuse_and_elimination_passes())


def onnxruntime(skip: Collection[str], level: str) -> Run:
    """Return the run of onnxruntime's offline optimization at a level.

    An example of a level is `ORT_ENABLE_BASIC`.
    """
    library: Any = import_module("onnxruntime")
    options: dict[str, Any] = {"disabled_optimizers": list(skip)} if skip else {}

    def optimize(source: Path, target: Path) -> None:
        settings = library.SessionOptions()
        settings.graph_optimization_level = getattr(library.GraphOptimizationLevel, level)
        settings.optimized_model_filepath = str(target)
        settings.log_severity_level = 4
        library.InferenceSession(str(source), settings, providers=["CPUExecutionProvider"], **options)

    return optimize


def onnxruntime_parts() -> list[str]:
    """Return the names of onnxruntime's optimizers."""
    return list(RUNTIME_PARTS)
