"""TVM's passes give the same modules in apass, at once, as in TVM, one by one."""

import contextlib
from typing import Any

import anyio
import pytest

import apass
from apass.adapters.tvm import ADAPTER, IRModule
from apass.adapters.tvm.library import tvm
from apass.adapters.tvm.outputs import compare_outputs
from tests.helpers.amounts import amount, some
from tests.helpers.rows import row
from tests.helpers.tvm_modules import ONNX_MODELS, from_onnx

T = tvm.relax.transform

PIPELINES = {
    "simplify": [T.CanonicalizeBindings, T.EliminateCommonSubexpr, T.DeadCodeElimination],
    "decompose": [T.DecomposeOpsForInference, T.ConvertToDataflow, T.Normalize, T.TopologicalSort],
    "convert": [T.ExpandMatmulOfSum, T.AdjustMatmulOrder, T.RemoveUnusedParameters, T.LambdaLift, T.Normalize],
}
"""Passes over Relax functions and whole modules, in C++."""

LOWERING = {
    "fuse": [T.AnnotateTIROpPattern, T.FuseOps, T.FuseTIR],
    "lower": [tvm.tirx.transform.StmtSimplify, T.RewriteDataflowReshape, T.ToNonDataflow, T.CallTIRRewrite],
}
"""Passes over modules with TIR functions."""

UNORDERED = "simple/test_expand_shape_model4/model.onnx"
"""A model that TVM alone fuses in several ways.

`FuseOps` puts the four symbolic sizes of the model among the parameters of the fused function in the order of a
set of addresses: in 60 runs of TVM over one and the same module, the parameters stood in five orders.
"""


def models() -> dict[str, IRModule]:
    """Return the modules that TVM imports from a share of ONNX's test data."""
    found: dict[str, IRModule] = {}
    for path in some(sorted(ONNX_MODELS.glob("*/**/*.onnx"))):
        mod = from_onnx(path)
        if mod is not None:
            found[str(path.relative_to(ONNX_MODELS))] = mod
    return found


def alone(mod: IRModule, passes: list[Any]) -> IRModule | None:
    """Return the result of TVM; None if a pass fails."""
    with contextlib.suppress(Exception):
        for make in passes:
            mod = make()(mod)
        return mod
    return None


@pytest.fixture(scope="module")
def corpus() -> dict[str, IRModule]:
    found = models()
    assert len(found) >= amount(130)
    return found


@pytest.fixture(scope="module")
def lowered(corpus: dict[str, IRModule]) -> dict[str, IRModule]:
    # The largest networks take as long as all the others.
    small = {key: mod for key, mod in corpus.items() if not key.startswith(("light/light_dense", "light/light_inc"))}
    results = {key: alone(mod, [T.LegalizeOps]) for key, mod in small.items()}
    return {key: mod for key, mod in results.items() if mod is not None}


def check(modules: dict[str, IRModule], passes: list[Any], backend: str) -> None:
    """Check the results of apass against those of TVM, and the failures too."""
    expected = {key: alone(mod, passes) for key, mod in modules.items()}
    pipeline = apass.Sequential([apass.from_tvm(make()) for make in passes])

    async def run() -> dict[str, Any]:
        outcomes = await apass.optimize_all(modules, pipeline, errors="collect", limit=8)
        return {name: outcome.module if outcome.error is None else None for name, outcome in outcomes.items()}

    assert fingerprints(anyio.run(run, backend=backend)) == fingerprints(expected)
    assert sum(result is not None for result in expected.values()) >= amount(100)


def fingerprints(results: dict[str, Any]) -> dict[str, str]:
    return {name: "failed" if mod is None else ADAPTER.fingerprint(mod) for name, mod in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_results_equal_those_of_tvm(name: str, backend: str, corpus: dict[str, IRModule]) -> None:
    check(corpus, PIPELINES[name], backend)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOWERING)
def test_lowered_results_equal_those_of_tvm(name: str, lowered: dict[str, IRModule]) -> None:
    ordered = {key: mod for key, mod in lowered.items() if key != UNORDERED}
    check(ordered, LOWERING[name], "asyncio")


@pytest.mark.slow
def test_legalized_modules_equal_those_of_tvm(corpus: dict[str, IRModule], lowered: dict[str, IRModule]) -> None:
    results = anyio.run(legalize, {key: mod for key, mod in corpus.items() if key in lowered})
    assert fingerprints(results) == fingerprints(lowered)


async def legalize(modules: dict[str, IRModule]) -> dict[str, IRModule]:
    results: dict[str, IRModule] = await apass.optimize_all(modules, apass.from_tvm(T.LegalizeOps()))
    return results


@pytest.mark.process
@pytest.mark.slow
def test_outputs_stay_equal_after_all_pipelines() -> None:
    names = ("tvm.Default", "tvm.relax.DecomposeOpsForInference", "tvm.relax.LegalizeOps", "tvm.relax.FuseTIR")

    async def compare() -> None:
        for model in ("test_Conv2d_padding", "test_MaxPool2d", "test_Linear"):
            mod = from_onnx(ONNX_MODELS / "pytorch-converted" / model / "model.onnx")
            result = await apass.parse_pipeline(",".join(names))(mod)
            compared = await compare_outputs(mod, result)
            with row(model):
                assert (compared.changed, compared.text) == (False, "outputs equal: main")

    anyio.run(compare)


@pytest.mark.slow
def test_light_models_are_real_networks(corpus: dict[str, IRModule]) -> None:
    assert len([key for key in corpus if key.startswith("light/")]) >= 2
    for name in ("light_densenet121", "light_resnet50"):
        assert from_onnx(ONNX_MODELS / "light" / f"{name}.onnx") is not None, name
