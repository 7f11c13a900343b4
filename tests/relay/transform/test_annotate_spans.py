"""AnnotateSpans: each expression gets its position in the text of the module."""

import apass
from apass.relay.expr import Call, GlobalVar, Op
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.nn.activation import relu
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.text.printing.printer import astext
from apass.relay.transform.annotate_spans import AnnotateSpans


def module() -> IRModule:
    """Return a module of two functions, with a constant in the printed metadata."""
    x, y = var("x", shape=(2,)), var("y", shape=(2,))
    mod = IRModule.from_expr(Function([x], relu(add(Call(GlobalVar("f"), [x]), const([1.0, 2.0])))))
    mod["f"] = Function([y], relu(relu(y)))
    return mod


def test_annotate_spans_keeps_module() -> None:
    before = module()
    after = apass.run(AnnotateSpans(), before)
    assert_structural_equal(after, before)
    assert astext(after) == astext(before)


def test_span_points_at_text_of_call() -> None:
    after = apass.run(AnnotateSpans(), module())
    lines = astext(after).splitlines()
    starts: list[str] = []
    for func in after.functions.values():
        for node in post_order(func):
            if isinstance(node, Call) and isinstance(node.op, Op):
                assert node.span is not None
                assert node.span.source_name == "GeneratedSource"
                starts.append(lines[node.span.line - 1][node.span.column - 1 :].split("(")[0])
    assert sorted(starts) == ["add", "nn.relu", "nn.relu", "nn.relu"]


def test_annotate_spans_has_level_zero_and_no_requirements() -> None:
    info = AnnotateSpans().info
    assert (info.name, info.opt_level, info.required) == ("AnnotateSpans", 0, ())
