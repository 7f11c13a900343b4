"""MergeCompilerRegions: regions of one compiler are joined if that makes no cycle."""

import pytest

import apass
from apass.relay.errors import AnnotationError
from apass.relay.expr import Call, Expr, Op
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.annotation import compiler_begin, compiler_end
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import exp
from apass.relay.op.nn.activation import relu
from apass.relay.parser import fromtext
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.transform.annotate_target import AnnotateTarget
from apass.relay.transform.merge_compiler_regions import MergeCompilerRegions, merge_compiler_regions
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels
from tests.helpers.relay.compilers import for_compiler, marks, partitioned, supporting

X = var("x", shape=(4,))
HEADER = '#[version = "0.0.5"]\n'
INPUTS = HEADER + "def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32], %c: bool)"


def sizes(text: str, targets: str | list[str] = "a", include_non_call_ops: bool = True) -> list[int]:
    """Return the number of operators in each function for compiler `a`.

    The partitioned program must compute the same as before.
    """
    before = fromtext(text)
    after = partitioned(before, targets, include_non_call_ops)
    for seed in (0, 1):
        arguments = random_arguments(before["main"], seed)
        assert difference(evaluate(before, *arguments), evaluate(after, *arguments)) == ""
    return sorted(sum(isinstance(node, Op) for node in post_order(func)) for func in for_compiler(after, "a"))


def test_regions_that_feed_each_other_are_joined() -> None:
    with supporting("a", ["add", "nn.relu"]):
        mod = apass.run(AnnotateTarget("a"), fromtext(INPUTS + "{ exp(nn.relu(add(%x, %y))) }"))
    expected = (
        INPUTS
        + """{
  %0 = annotation.compiler_begin(%x, compiler="a");
  %1 = annotation.compiler_begin(%y, compiler="a");
  %2 = add(%0, %1);
  %3 = nn.relu(%2);
  %4 = annotation.compiler_end(%3, compiler="a");
  %5 = annotation.compiler_begin(%4, compiler="default");
  %6 = exp(%5);
  annotation.compiler_end(%6, compiler="default")
}"""
    )
    assert_structural_equal(apass.run(MergeCompilerRegions(), mod), fromtext(expected))


def test_diamond_is_joined_if_both_sides_are_supported() -> None:
    text = INPUTS + "{ let %unused = %c; %0 = nn.relu(%x); multiply(negative(%0), abs(%0)) }"
    with supporting("a", ["nn.relu", "negative", "abs", "multiply"]):
        assert sizes(text) == [4]


def test_diamond_is_split_if_a_side_is_unsupported() -> None:
    text = INPUTS + "{ %0 = nn.relu(%x); multiply(exp(%0), abs(%0)) }"
    with supporting("a", ["nn.relu", "abs", "multiply"]):
        # As in TVM: relu and abs are joined first, and multiply depends on exp, which depends on relu.
        assert sizes(text) == [1, 2]


def test_joins_after_a_dependent_region_make_no_cycle() -> None:
    # exp reads relu, which is joined with add afterwards. The join depends on abs, and so does exp from then on. TVM
    # misses that, joins abs with multiply, and makes a cycle.
    text = (
        INPUTS
        + """{
  %0 = nn.relu(%x);
  %1 = exp(%0);
  %2 = abs(%y);
  %3 = tanh(%2);
  %4 = add(%0, %3);
  (%1, %4, multiply(%1, %2))
}"""
    )
    with supporting("a", ["nn.relu", "abs", "add", "multiply"]):
        assert sizes(text, include_non_call_ops=False) == [1, 1, 2]


def test_dependency_over_unmarked_nodes_is_respected() -> None:
    text = INPUTS + "{ %0 = add(%x, %y); %1 = (%0, %y); multiply(%0, exp(%1.0)) }"
    with supporting("a", ["add", "multiply"]):
        assert sizes(text, include_non_call_ops=False) == [1, 1]


def test_dependency_over_let_variable_is_respected() -> None:
    text = INPUTS + "{ %0 = add(%x, %y); let %v = exp(%0); multiply(%0, %v) }"
    with supporting("a", ["add", "multiply"]):
        assert sizes(text) == [1, 1]


def test_dependency_over_closure_is_respected() -> None:
    text = (
        INPUTS
        + """{
  %0 = add(%x, %y);
  let %f = fn (%z: Tensor[(4), float32]) { exp(add(%z, %0)) };
  multiply(%0, %f(%x))
}"""
    )
    with supporting("a", ["add", "multiply"]):
        assert sizes(text) == [1, 1, 1]


def test_regions_of_different_scopes_stay_apart() -> None:
    text = INPUTS + "{ %0 = add(%x, %y); (%0, if (%c) { let %v = exp(%x); multiply(%0, %v) } else { %0 }) }"
    with supporting("a", ["add", "multiply"]):
        assert sizes(text) == [1, 1]


def test_region_used_by_one_branch_is_joined_there() -> None:
    text = INPUTS + "{ if (%c) { multiply(add(%x, %y), %y) } else { %x } }"
    with supporting("a", ["add", "multiply"]):
        assert sizes(text) == [2]


def test_cells_are_not_moved_over_each_other() -> None:
    text = (
        INPUTS
        + """{
  let %r = ref(add(%x, %y));
  let %a = ref_read(%r);
  let %u = ref_write(%r, add(%a, %x));
  (add(%a, ref_read(%r)), ref_read(%r))
}"""
    )
    with supporting("a", ["add"]):
        assert len(sizes(text)) >= 3
        assert len(sizes(text, include_non_call_ops=False)) == 3


def test_regions_of_other_compilers_are_not_joined() -> None:
    text = INPUTS + "{ add(multiply(add(%x, %y), %y), %x) }"
    with supporting("a", ["add"]), supporting("b", ["multiply"]):
        assert sizes(text, ["a", "b"]) == [1, 1]


def test_function_without_marks_is_returned_itself() -> None:
    func = fromtext(INPUTS + "{ add(%x, %y) }")["main"]
    assert merge_compiler_regions(func) is func


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (compiler_end(X, "a"), "which is in no region; put annotation.compiler_begin on each"),
        (compiler_end(exp(compiler_begin(X, "b")), "a"), "in a region for 'b'; use one compiler"),
        (add(compiler_begin(X, "a"), X), "is in no region, but another operand is in one for 'a'"),
        (Call(Op.get("annotation.compiler_begin"), [X]), "has no attribute compiler"),
    ],
)
def test_marks_without_region_are_errors(body: Expr, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        merge_compiler_regions(Function([X], body))


def alternating(length: int) -> IRModule:
    """Return a chain whose supported operators also read the first one."""
    x = var("x", shape=(2,))
    first = body = relu(x)
    for index in range(length):
        body = multiply(body, first) if index % 2 else exp(body)
    return IRModule.from_expr(Function([x], body))


def nested_diamonds(depth: int) -> IRModule:
    """Return diamonds within each other; the bottom of each reads its top."""
    x = var("x", shape=(2,))
    body: Expr = x
    tops: list[Expr] = []
    for _ in range(depth):
        tops.append(relu(body))
        body = exp(tops[-1])
    for top in reversed(tops):
        body = multiply(exp(body), top)
    return IRModule.from_expr(Function([x], body))


@pytest.mark.slow
@pytest.mark.parametrize("mod", [alternating(levels(10_000)), nested_diamonds(2_500)], ids=["chain", "diamonds"])
def test_long_programs_are_merged(mod: IRModule) -> None:
    with supporting("a", ["nn.relu", "multiply"]):
        marked = apass.run(AnnotateTarget("a"), infer_module(mod))
    merged = apass.run(MergeCompilerRegions(), marked)
    assert len(marks(merged["main"])) <= len(marks(marked["main"]))


@pytest.mark.slow
def test_long_supported_chain_becomes_one_region() -> None:
    x, one = var("x", shape=(2,)), const(1.0)
    body: Expr = x
    for _ in range(levels(10_000)):
        body = add(body, one)
    with supporting("a", ["add"]):
        (func,) = for_compiler(partitioned(IRModule.from_expr(Function([x], body)), "a"), "a")
    assert sum(isinstance(node, Call) for node in post_order(func)) == levels(10_000)
    assert len(func.params) == 1
