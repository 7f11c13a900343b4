"""MergeComposite: matches of a pattern table are moved into composite functions."""

import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass.errors import PassDefinitionError, PassRegistrationError
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.dataflow_pattern import DFPattern, is_constant, is_if, is_op, is_tuple, is_tuple_get_item, wildcard
from apass.relay.expr import Call, Expr
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.post_order import post_order
from apass.relay.op.contrib import register
from apass.relay.op.contrib.register import PatternEntry, get_pattern_table, register_pattern_table
from apass.relay.parser import parse
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.merge_composite import MergeComposite
from tests.helpers.amounts import amount

BEFORE = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 1, 1), float32], %b: Tensor[(4), float32]) {
  %0 = nn.conv2d(%x, %w, channels=4, kernel_size=[1, 1]);
  %1 = nn.relu(nn.bias_add(%0, %b));
  %2 = nn.conv2d(%1, %w, channels=4, kernel_size=[1, 1]);
  nn.bias_add(%2, %b)
}
"""
AFTER = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 1, 1), float32], %b: Tensor[(4), float32]) {
  %0 = fn (%p0: Tensor[(1, 4, 8, 8), float32], %p1: Tensor[(4, 4, 1, 1), float32], %p2: Tensor[(4), float32],
           PartitionedFromPattern="nn.conv2d_nn.bias_add_nn.relu_", Composite="demo.conv_relu") {
    nn.relu(nn.bias_add(nn.conv2d(%p0, %p1, channels=4, kernel_size=[1, 1]), %p2))
  };
  %1 = %0(%x, %w, %b);
  %2 = fn (%q0: Tensor[(1, 4, 8, 8), float32], %q1: Tensor[(4, 4, 1, 1), float32], %q2: Tensor[(4), float32],
           PartitionedFromPattern="nn.conv2d_nn.bias_add_", Composite="demo.conv") {
    nn.bias_add(nn.conv2d(%q0, %q1, channels=4, kernel_size=[1, 1]), %q2)
  };
  %2(%1, %w, %b)
}
"""


def biased_conv() -> DFPattern:
    """Return a pattern of a convolution with a bias."""
    return is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard())


def table() -> list[PatternEntry]:
    """Return a table of two patterns, one of which is a part of the other."""
    return [("demo.conv_relu", is_op("nn.relu")(biased_conv())), ("demo.conv", biased_conv())]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a table for one test, and return its name."""
    monkeypatch.setattr(register, "_TABLES", {})
    register_pattern_table("demo", table)
    return "demo"


def composites(expr: Expr) -> list[object]:
    """Return the names of the called composite functions, in order."""
    calls = [node for node in post_order(expr) if isinstance(node, Call)]
    return [call.op.attrs["Composite"] for call in calls if isinstance(call.op, Function)]


def test_matches_become_composite_functions() -> None:
    before = parse(BEFORE)
    result = apass.run(MergeComposite(table()), before)
    assert_structural_equal(result, parse(AFTER))
    arguments = random_arguments(before["main"], 0)
    assert difference(evaluate(before, *arguments), evaluate(result, *arguments)) == ""


def test_earlier_pattern_of_table_takes_precedence() -> None:
    result = apass.run(MergeComposite(table()[::-1]), parse(BEFORE))
    assert composites(result["main"]) == ["demo.conv", "demo.conv"]


def test_check_accepts_or_rejects_each_match() -> None:
    def is_outermost(match: Expr) -> bool:
        return match is root

    mod = parse(BEFORE)
    root = mod["main"].body
    assert composites(apass.run(MergeComposite([("demo.conv", biased_conv(), is_outermost)]), mod)["main"]) == [
        "demo.conv"
    ]


def test_empty_table_changes_nothing() -> None:
    mod = parse(BEFORE)
    assert apass.run(MergeComposite([]), mod) is mod


def test_matched_constants_are_in_composite_function() -> None:
    mod = parse('#[version = "0.0.5"]\ndef @main(%x: float32) { add(%x, 1f) }')
    result = apass.run(MergeComposite([("demo.increment", wildcard() + is_constant())]), mod)
    call = result["main"].body
    assert isinstance(call, Call)
    assert len(call.args) == 1


def test_registered_table_is_found_by_name(demo: str) -> None:
    expected = apass.run(MergeComposite(table()), parse(BEFORE))
    assert_structural_equal(apass.run(MergeComposite(demo), parse(BEFORE)), expected)
    pipeline = apass.parse_pipeline(f"MergeComposite{{pattern_table={demo}}}")
    assert str(pipeline) == "MergeComposite{pattern_table=demo}"
    assert_structural_equal(apass.run(pipeline, parse(BEFORE)), expected)
    result = apass.get_pass("MergeComposite", pattern_table=table())
    assert_structural_equal(apass.run(result, parse(BEFORE)), expected)


def test_unknown_table_error_suggests_name(demo: str) -> None:
    with pytest.raises(KeyError, match=r"no pattern table is registered for compiler 'demi'.*demo"):
        MergeComposite("demi")
    with pytest.raises(PassRegistrationError, match="a pattern table is already registered for compiler 'demo'"):
        register_pattern_table(demo, table)


def test_decorator_registers_table(demo: str) -> None:
    @register_pattern_table("other")
    def other() -> list[PatternEntry]:
        return table()[1:]

    assert [entry[0] for entry in get_pattern_table("other")] == ["demo.conv"]
    assert len(other()) == 1


@pytest.mark.parametrize("entry", [("only a name",), ("name", "no pattern"), (1, wildcard()), ("a", wildcard(), 1)])
def test_invalid_table_entry_raises_error(entry: PatternEntry) -> None:
    with pytest.raises(PassDefinitionError, match=r"a pattern table entry must be \(name, pattern\)"):
        MergeComposite([entry])


def either_of(left: DFPattern, right: DFPattern) -> DFPattern:
    """Return a pattern of a sum or a product."""
    return is_op("add")(left, right) | is_op("multiply")(left, right)


def loose_table() -> list[PatternEntry]:
    """Return a table with many matches: overlapping, shared, and on long paths."""
    same = wildcard()
    unary = is_op("negative")(wildcard()) | is_op("nn.relu")(wildcard())
    either = either_of(wildcard(), wildcard())
    return [
        ("demo.path", (either | unary).dominates(unary | is_op("subtract")(wildcard(), wildcard()), wildcard())),
        ("demo.square", same * same),
        ("demo.nested", either_of(either, wildcard())),
        ("demo.fields", is_op("concatenate")(is_tuple(None))),
        ("demo.choice", is_if(wildcard(), wildcard(), wildcard())),
        ("demo.field", is_tuple_get_item(is_tuple([wildcard(), wildcard()]))),
        ("demo.constant", either_of(wildcard(), is_constant())),
        ("demo.any", either),
    ]


@pytest.mark.slow
@settings(max_examples=amount(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_composite_functions_compute_same_result(program: Program) -> None:
    mod, arguments = program
    result = apass.run(MergeComposite(loose_table()), mod)
    assert what_is_ill_formed(result) == []
    assert difference(evaluate(mod, *arguments), evaluate(result, *arguments)) == ""


def test_variable_bound_within_match_stays_inside() -> None:
    table: list[PatternEntry] = [
        ("demo.path", is_op("subtract")(wildcard(), wildcard()).dominates(is_op("negative")(wildcard()), wildcard()))
    ]
    mod = parse("def @main() { negative((fn (%x: float32) { subtract(%x, %x) })(2f)) }")
    for entries in (table, loose_table()):
        result = apass.run(MergeComposite(entries), mod)
        assert what_is_ill_formed(result) == []
        assert difference(evaluate(mod), evaluate(result)) == ""


def test_merge_composite_has_level_zero_and_no_requirements() -> None:
    info = MergeComposite([]).info
    assert (info.name, info.opt_level, info.required) == ("MergeComposite", 0, ())
