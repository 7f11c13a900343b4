"""CallGraph: counts, recursion, and TVM's text."""

import re

import pytest

from apass.relay.analysis import CallGraph
from apass.relay.expr import Call, GlobalVar, Tuple
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from tests.helpers.amounts import levels

MODULE = parse(
    """#[version = "0.0.5"]
    def @leaf(%x: int32) -> int32 { %x }
    def @middle(%x: int32) -> int32 { add(@leaf(%x), @leaf(@leaf(%x))) }
    def @loop(%x: int32) -> int32 { @loop(@middle(%x)) }
    def @main(%x: int32) -> int32 { let %f = @leaf; add(@middle(%x), %f(%x)) }
    """
)


def text_of(graph: CallGraph) -> str:
    """Return the text without addresses."""
    return re.sub(r"0x[0-9a-f]+", "ADDRESS", str(graph))


def test_references_are_counted_once_per_function() -> None:
    graph = CallGraph(MODULE)
    assert graph.module is MODULE
    names = ["leaf", "middle", "loop", "main"]
    assert [graph.ref_count(name) for name in names] == [2, 2, 1, 0]
    assert [graph.global_call_count(MODULE.get_global_var(name)) for name in names] == [0, 1, 2, 2]
    assert [graph.is_recursive(name) for name in names] == [False, False, True, False]


def test_text_is_that_of_tvm() -> None:
    graph = CallGraph(MODULE)
    assert text_of(graph) == (
        "Call graph node: main at: ADDRESS,  #refs = 0\n"
        "  call site: <main> calls leaf\n"
        "  call site: <main> calls middle\n"
        "\n"
        "Call graph node: loop at: ADDRESS,  #refs = 1\n"
        "  call site: <loop> calls loop\n"
        "  call site: <loop> calls middle\n"
        "\n"
        "Call graph node: middle at: ADDRESS,  #refs = 2\n"
        "  call site: <middle> calls leaf\n"
        "\n"
        "Call graph node: leaf at: ADDRESS,  #refs = 2\n"
        "\n"
    )
    assert graph.print_var("leaf") in str(graph)


def test_mutually_recursive_functions_are_listed() -> None:
    even, odd = GlobalVar("even"), GlobalVar("odd")
    graph = CallGraph(IRModule({even: Function([], Call(odd, [])), odd: Function([], Call(even, []))}))
    assert not graph.is_recursive(even)
    assert text_of(graph).count("#refs = 1") == 2


def test_unknown_function_is_error() -> None:
    graph = CallGraph(MODULE)
    with pytest.raises(KeyError, match="did you mean 'middle'"):
        graph.ref_count("middl")
    with pytest.raises(TypeError, match="a GlobalVar or the name of a function, got 3"):
        graph.print_var(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no function named 'other'"):
        CallGraph(IRModule.from_expr(Function([], Call(GlobalVar("other"), []))))


def test_long_chain_of_functions_is_printed() -> None:
    count = levels(5_000)
    functions = {GlobalVar(f"f{index}"): Function([], Call(GlobalVar(f"f{index + 1}"), [])) for index in range(count)}
    functions[GlobalVar(f"f{count}")] = Function([], Tuple([]))
    assert str(CallGraph(IRModule(functions))).count("call site") == count
