"""Programs with cells, closures, recursion and edge cases keep their meaning."""

import random
from collections.abc import Sequence

import pytest

import apass
from apass.relay.dataflow_pattern import is_constant, is_op, wildcard
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_module
from tests.helpers.relay.pass_names import COMPOSABLE, EXACT
from tests.helpers.rows import row
from tests.relay.hard_programs import HARD_PROGRAMS

OPTIONS: dict[str, dict[str, object]] = {
    "SplitArgs": {"max_function_args": 2},
    "AnnotateTarget": {"targets": ["none"]},
    "ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}},
    "EtaExpand": {"expand_constructor": True, "expand_global_var": True},
    "DeadCodeElimination": {"inline_once": True},
    "MergeComposite": {"pattern_table": [("sum", is_op("add")(wildcard(), is_constant()))]},
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", HARD_PROGRAMS)
async def test_passes_keep_meaning_of_hard_program(name: str) -> None:
    text, arguments = HARD_PROGRAMS[name]
    mod = parse(text)
    value, ty = evaluate(mod, *arguments), infer_module(mod)["main"].checked_type
    generator = random.Random(name)
    sequences = [[pass_name] for pass_name in EXACT] + [generator.choices(COMPOSABLE, k=5) for _ in range(3)]
    async with apass.PassContext(opt_level=4):
        for names in sequences:
            result = await pipeline_of(names)(mod)
            with row(names):
                ADAPTER.verify(result)
                assert difference(value, evaluate(result, *arguments)) == "", result
                typed = infer_module(result)
                assert typed["main"].checked_type == ty
                assert structural_equal(parse(typed.astext()), typed)


def pipeline_of(names: Sequence[str]) -> apass.Pass[IRModule]:
    return apass.Sequential([apass.get_pass(name, **OPTIONS.get(name, {})) for name in names])
