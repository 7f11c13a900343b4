"""PartitionGraph: the regions for other compilers become global functions."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apass
from apass.errors import PassDefinitionError
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.dataflow_pattern import is_op, wildcard
from apass.relay.errors import AnnotationError
from apass.relay.expr import Call, Expr, Tuple
from apass.relay.function import Function
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.op.annotation import compiler_begin, compiler_end
from apass.relay.op.contrib.register import PatternEntry
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import exp, negative
from apass.relay.op.shape.join import concatenate
from apass.relay.parser import fromtext, parse
from apass.relay.rewrite.bind import bind_params_by_name
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing import mobilenet, resnet
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.annotate_target import AnnotateTarget
from apass.relay.transform.inline import Inline
from apass.relay.transform.merge_compiler_regions import MergeCompilerRegions
from apass.relay.transform.merge_composite import MergeComposite
from apass.relay.transform.partition_graph import PartitionGraph, partition_graph
from apass.relay.transform.simplify_inference import SimplifyInference
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount, levels
from tests.helpers.relay.compilers import compiled, for_compiler, marks, partitioned, supporting

HEADER = '#[version = "0.0.5"]\n'
X, Y = var("x", shape=(4,)), var("y", shape=(4,))
ARGUMENTS = [np.array([0.0, 1.0, 2.0, 3.0], "float32")] * 2


def module(body: Expr) -> IRModule:
    """Return a module with a function of `X` and `Y`."""
    return IRModule.from_expr(Function([X, Y], body))


def region(op: Expr, compiler: str = "a") -> Call:
    """Return a call of an operator with marks around it."""
    assert isinstance(op, Call)
    return compiler_end(Call(op.op, [compiler_begin(arg, compiler) for arg in op.args], op.attrs), compiler)


def test_annotate_merge_partition_gives_functions_of_tvm() -> None:
    before = fromtext(
        HEADER
        + """def @main(%data: Tensor[(1, 3, 8, 8), float32], %weight: Tensor[(4, 3, 3, 3), float32]) {
  %0 = nn.conv2d(%data, %weight, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %1 = nn.relu(%0);
  %2 = exp(%1);
  %3 = add(%2, %0);
  nn.relu(%3)
}"""
    )
    with supporting("dnnl", ["nn.conv2d", "nn.relu", "add"]):
        after = partitioned(before, "dnnl")
    expected = """def @main(%data: Tensor[(1, 3, 8, 8), float32], %weight: Tensor[(4, 3, 3, 3), float32]) -> Tensor[(1, 4, 8, 8), float32] {
  %0 = @tvmgen_default_dnnl_main_0(%data, %weight) /* ty=(Tensor[(1, 4, 8, 8), float32], Tensor[(1, 4, 8, 8), float32]) */;
  %1 = %0.0;
  %2 = exp(%1) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  %3 = %0.1;
  @tvmgen_default_dnnl_main_2(%2, %3) /* ty=Tensor[(1, 4, 8, 8), float32] */
}

def @tvmgen_default_dnnl_main_0(%dnnl_0_i0: Tensor[(1, 3, 8, 8), float32], %dnnl_0_i1: Tensor[(4, 3, 3, 3), float32], global_symbol="tvmgen_default_dnnl_main_0", Primitive=1, Compiler="dnnl", Inline=1) -> (Tensor[(1, 4, 8, 8), float32], Tensor[(1, 4, 8, 8), float32]) {
  %4 = nn.conv2d(%dnnl_0_i0, %dnnl_0_i1, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  %5 = nn.relu(%4) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  (%5, %4)
}

def @tvmgen_default_dnnl_main_2(%dnnl_2_i0: Tensor[(1, 4, 8, 8), float32], %dnnl_2_i1: Tensor[(1, 4, 8, 8), float32], global_symbol="tvmgen_default_dnnl_main_2", Primitive=1, Compiler="dnnl", Inline=1) -> Tensor[(1, 4, 8, 8), float32] {
  %6 = add(%dnnl_2_i0, %dnnl_2_i1) /* ty=Tensor[(1, 4, 8, 8), float32] */;
  nn.relu(%6) /* ty=Tensor[(1, 4, 8, 8), float32] */
}
"""  # noqa: E501 - the text that the printer writes
    assert str(after) == expected
    assert_structural_equal(parse(after.astext()), after)


def test_name_of_module_is_part_of_names() -> None:
    mod = module(region(exp(X), "my-npu"))
    for name, prefix in (("net", "tvmgen_net_"), ("", "tvmgen_"), (None, "tvmgen_"), ("a b", "tvmgen_a_b_")):
        after = partition_graph(mod, name)
        assert compiled(after) == [f"{prefix}my_npu_main_0"]
        assert for_compiler(after, "my-npu")[0].attrs["global_symbol"] == f"{prefix}my_npu_main_0"
    with pytest.raises(PassDefinitionError, match="mod_name must have only ASCII characters, got 'é'"):
        PartitionGraph("é")


def test_constants_are_bound_on_request() -> None:
    one = const([1.0, 1.0, 1.0, 1.0])
    mod = module(region(add(region(concatenate(Tuple([one, one]), 0)), const(2.0))))
    bound, unbound = (partition_graph(mod, bind_constants=flag) for flag in (True, False))
    assert [len(func.params) for func in for_compiler(bound, "a")] == [0, 1]
    assert [len(func.params) for func in for_compiler(unbound, "a")] == [1, 2]
    assert difference(evaluate(bound, *ARGUMENTS), evaluate(unbound, *ARGUMENTS)) == ""


def test_one_value_is_passed_once() -> None:
    (func,) = for_compiler(partition_graph(module(region(add(X, X)))), "a")
    assert [param.name_hint for param in func.params] == ["a_0_i0"]


def test_tuple_result_is_flattened() -> None:
    begin = compiler_begin(X, "a")
    pair = compiler_end(Tuple([exp(begin), negative(begin)]), "a")
    after = partition_graph(module(pair))
    (func,) = for_compiler(after, "a")
    assert isinstance(func.body, Tuple)
    assert isinstance(after["main"].body, Tuple)
    arguments = random_arguments(after["main"], 0)
    assert difference(evaluate(module(pair), *arguments), evaluate(after, *arguments)) == ""


def test_marks_for_default_are_removed() -> None:
    mod = module(region(exp(region(negative(X), "default")), "default"))
    after = partition_graph(mod)
    assert_structural_equal(after, infer_module(module(exp(negative(X)))))


def test_module_without_marks_is_returned_itself() -> None:
    mod = infer_module(module(exp(X)))
    assert partition_graph(mod) is mod


def test_mark_without_end_is_removed() -> None:
    # TVM leaves a free variable in place of the mark around the value of a Let.
    text = HEADER + "def @main(%x: Tensor[(4), float32]) { let %v = exp(%x); add(%v, %v) }"
    with supporting("a", ["exp", "add"]):
        after = partitioned(fromtext(text), "a")
    assert [str(func.body).splitlines()[-1].strip()[:3] for func in for_compiler(after, "a")] == ["exp", "add"]
    assert what_is_ill_formed(after["main"]) == []


def test_regions_of_several_functions_have_different_names() -> None:
    text = HEADER + "def @g(%x: Tensor[(4), float32]) { exp(%x) }\ndef @main(%x: Tensor[(4), float32]) { exp(@g(%x)) }"
    with supporting("a", ["exp"]):
        after = partitioned(fromtext(text), "a")
    names = [gvar.name_hint for gvar in after.get_global_vars()]
    assert names == ["g", "main", "tvmgen_default_a_g_0", "tvmgen_default_a_main_0"]


def test_second_partition_prefixes_names_again() -> None:
    # As in TVM, which renames all functions that have the attribute Compiler.
    once = partition_graph(module(region(exp(X))))
    twice = partition_graph(once)
    assert compiled(twice) == ["tvmgen_default_tvmgen_default_a_main_0"]
    assert difference(evaluate(once, *ARGUMENTS), evaluate(twice, *ARGUMENTS)) == ""


def test_composite_functions_stay_within_regions() -> None:
    text = (
        HEADER
        + """def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32]) {
  nn.relu(nn.dense(%x, %w, units=3))
}"""
    )
    table: list[PatternEntry] = [("a.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())))]
    steps = (MergeComposite(table), AnnotateTarget("a"), MergeCompilerRegions(), PartitionGraph())
    after = apass.run(apass.Sequential(steps), fromtext(text))
    (func,) = for_compiler(after, "a")
    assert isinstance(func.body, Call)
    assert isinstance(func.body.op, Function)
    assert func.body.op.attrs["Composite"] == "a.dense_relu"
    arguments = random_arguments(after["main"], 0)
    assert difference(evaluate(fromtext(text), *arguments), evaluate(after, *arguments)) == ""


def test_functions_can_be_inlined_again() -> None:
    after = partition_graph(module(region(exp(X))))
    assert isinstance(apass.run(Inline(), after)["main"].body, Call)


def cyclic() -> Expr:
    """Return a region in which an operator needs a result of it from outside."""
    first = exp(compiler_begin(X, "a"))
    outside = negative(compiler_end(first, "a"))
    return compiler_end(add(first, compiler_begin(outside, "a")), "a")


def crossing() -> Expr:
    """Return a region that uses a result of another region without a mark."""
    return compiler_end(add(compiler_begin(X, "b"), region(exp(X))), "b")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (cyclic(), "in @main depends on its own result; put the nodes before and after"),
        (crossing(), "a node in a region for 'b' uses .* of another region; put annotation.compiler_begin on it"),
    ],
)
def test_impossible_regions_are_errors(body: Expr, message: str) -> None:
    with pytest.raises(AnnotationError, match=message):
        partition_graph(module(body))


def test_used_names_are_errors() -> None:
    mod = module(region(exp(X)))
    with pytest.raises(AnnotationError, match="the module has a function @a_main_0 already"):
        partition_graph(mod.with_functions({"a_main_0": Function([X], X)}))
    name = "tvmgen_default_a_main_0"
    with pytest.raises(AnnotationError, match=f"two functions of the module would have the name @{name}"):
        partition_graph(mod.with_functions({name: Function([X], X)}))


@pytest.mark.slow
@pytest.mark.parametrize("merges", [True, False])
def test_long_chains_are_partitioned(merges: bool) -> None:
    body: Expr = X
    for index in range(levels(4_000)):
        body = add(body, Y) if index % 2 else exp(body)
    steps = [AnnotateTarget("a"), *([MergeCompilerRegions()] if merges else []), PartitionGraph()]
    with supporting("a", ["add"]):
        after = apass.run(apass.Sequential(steps), module(body))
    assert len(after) == levels(4_000) // 2 + 1


def test_deep_region_is_partitioned() -> None:
    body: Expr = X
    for _ in range(levels(10_000)):
        body = multiply(body, body)
    with supporting("a", ["multiply"]):
        (func,) = for_compiler(partitioned(module(body), "a"), "a")
    assert len(func.params) == 1


@pytest.mark.parametrize(
    ("mod", "params"),
    [
        resnet.get_workload(num_layers=18, image_shape=(3, 32, 32), num_classes=10),
        mobilenet.get_workload(image_shape=(3, 32, 32), num_classes=10),
    ],
    ids=["resnet", "mobilenet"],
)
def test_partitioned_model_computes_the_same(mod: IRModule, params: dict[str, NDArray]) -> None:
    bound = IRModule.from_expr(bind_params_by_name(mod["main"], params))
    before = apass.run(SimplifyInference(), bound)
    with supporting("a", ["nn.conv2d", "nn.relu", "add"]), supporting("b", ["multiply", "add", "nn.dense"]):
        after = partitioned(before, ["a", "b"])
    assert for_compiler(after, "a")
    assert for_compiler(after, "b")
    assert marks(after["main"]) == []
    arguments = random_arguments(before["main"], 0)
    assert difference(evaluate(before, *arguments), evaluate(after, *arguments)) == ""


OPS = ("add", "multiply", "subtract", "nn.relu", "cast", "where", "reshape", "concatenate", "nn.dense", "less", "sum")


@pytest.mark.slow
@pytest.mark.parametrize("refs", [False, True], ids=["pure", "cells"])
@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_partitioned_program_keeps_meaning(refs: bool, data: st.DataObject) -> None:
    program: Program = data.draw(programs(refs=refs))
    supported = data.draw(st.sets(st.sampled_from(OPS)))
    others = data.draw(st.sets(st.sampled_from(OPS)))
    mod, arguments = program
    with supporting("a", supported), supporting("b", others):
        after = partitioned(mod, ["a", "b"], data.draw(st.booleans()))
    ADAPTER.verify(after)
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
    assert all(marks(after[gvar]) == [] for gvar in after.get_global_vars())
    added = [gvar for gvar in after.get_global_vars() if gvar.name_hint not in mod]
    assert all("Compiler" in after[gvar].attrs for gvar in added)
