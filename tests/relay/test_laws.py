"""Laws of the Relay passes on random well-typed programs, alone and in sequence."""

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apass
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount
from tests.helpers.relay.pass_names import COMPOSABLE, EXACT, NAMES

OPTIONS: dict[str, dict[str, object]] = {
    "AnnotateTarget": {"targets": ["none"]},
    "ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}},
    "MergeComposite": {"pattern_table": []},
    "SplitArgs": {"max_function_args": 2},
}
"""Options of the passes that require some."""
APPROXIMATE = frozenset({"FastMath", "relay.Default"})
"""Passes that may change the last digits."""


def create_pass(name: str) -> apass.Pass[IRModule]:
    return apass.get_pass(name, **OPTIONS.get(name, {}))


def assert_same_meaning(before: IRModule, after: IRModule, arguments: list[Array]) -> None:
    """Assert that two modules compute the same, and that the second is valid."""
    ADAPTER.verify(after)
    with np.errstate(all="ignore"):
        assert difference(evaluate(before, *arguments), evaluate(after, *arguments)) == ""


def at_level_4(pass_: apass.Pass[IRModule], mod: IRModule) -> IRModule:
    """Run a pass in a context that enables every level."""

    async def main() -> IRModule:
        async with apass.PassContext(opt_level=4):
            return await pass_(mod)

    return anyio.run(main)


def test_all_passes_are_registered() -> None:
    assert set(NAMES) >= {
        "AlterOpLayout", "AnnotateSpans", "AnnotateTarget", "BackwardFoldScaleAxis", "BatchingOps",
        "CanonicalizeCast", "CanonicalizeOps", "CombineParallelBatchMatmul", "CombineParallelConv2D",
        "CombineParallelDense", "ConvertLayout", "DeadCodeElimination", "DefuseOps", "DynamicToStatic",
        "EliminateCommonSubexpr", "EtaExpand", "FastMath", "FoldConstant", "FoldExplicitPadding", "FoldScaleAxis",
        "ForwardFoldScaleAxis", "FuseOps", "InferType", "Inline", "LambdaLift", "LazyGradientInit", "Legalize",
        "MergeCompilerRegions", "MergeComposite", "PartialEvaluate", "PartitionGraph", "RemoveUnusedFunctions",
        "SimplifyExpr", "SimplifyFCTranspose", "SimplifyInference", "SplitArgs", "ToANormalForm",
        "ToBasicBlockNormalForm", "ToGraphNormalForm", "ToMixedPrecision", "relay.Default",
    }  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=amount(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_pass_keeps_meaning_and_types(name: str, program: Program) -> None:
    mod, arguments = program
    before = infer_module(mod)
    after = apass.run(create_pass(name), before)
    assert_same_meaning(before, after, arguments)
    assert infer_module(after)["main"].checked_type == before["main"].checked_type


@settings(max_examples=amount(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.lists(st.sampled_from(COMPOSABLE), min_size=1, max_size=6))
def test_any_sequence_of_passes_keeps_meaning(program: Program, names: list[str]) -> None:
    mod, arguments = program
    assert_same_meaning(mod, at_level_4(apass.Sequential([create_pass(name) for name in names]), mod), arguments)


@pytest.mark.parametrize("name", sorted(set(EXACT) - APPROXIMATE))
@settings(max_examples=amount(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_pass_does_not_change_its_input(name: str, program: Program) -> None:
    before = infer_module(program[0])
    text = astext(before)
    apass.run(create_pass(name), before)
    assert astext(before) == text


@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_printed_program_is_parsed_back(program: Program) -> None:
    typed = infer_module(program[0])
    for mod in (program[0], typed):
        back = read_module(astext(mod))
        assert structural_equal(back, mod)
        assert astext(infer_module(back)) == astext(typed)
