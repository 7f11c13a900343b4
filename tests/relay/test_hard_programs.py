"""Programs with cells, closures, recursion and edge cases keep their meaning."""

import random
from collections.abc import Sequence

import anyio
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
from tests.relay.hard_programs import HARD_PROGRAMS

pytestmark = pytest.mark.slow

OPTIONS: dict[str, dict[str, object]] = {
    "SplitArgs": {"max_function_args": 2},
    "AnnotateTarget": {"targets": ["none"]},
    "ConvertLayout": {"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}},
    "EtaExpand": {"expand_constructor": True, "expand_global_var": True},
    "DeadCodeElimination": {"inline_once": True},
    "MergeComposite": {"pattern_table": [("sum", is_op("add")(wildcard(), is_constant()))]},
}


def after(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Return the result of a sequence of passes, with every level enabled."""
    passes: list[apass.Pass[IRModule]] = [apass.get_pass(name, **OPTIONS.get(name, {})) for name in names]
    pipeline = apass.Sequential(passes)

    async def main() -> IRModule:
        async with apass.PassContext(opt_level=4):
            return await pipeline(mod)

    return anyio.run(main)


def assert_same_meaning(mod: IRModule, result: IRModule, arguments: Sequence[object], names: Sequence[str]) -> None:
    ADAPTER.verify(result)
    assert difference(evaluate(mod, *arguments), evaluate(result, *arguments)) == "", f"{names}: {result}"
    before, typed = infer_module(mod), infer_module(result)
    assert typed["main"].checked_type == before["main"].checked_type, names
    assert structural_equal(parse(typed.astext()), typed), names


@pytest.mark.parametrize("name", HARD_PROGRAMS)
def test_passes_keep_meaning_of_hard_program(name: str) -> None:
    text, arguments = HARD_PROGRAMS[name]
    mod = parse(text)
    generator = random.Random(name)
    sequences = [[pass_name] for pass_name in EXACT] + [generator.choices(COMPOSABLE, k=5) for _ in range(3)]
    for names in sequences:
        assert_same_meaning(mod, after(mod, names), arguments, names)
