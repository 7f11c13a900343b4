"""AnnotateTarget: marks are put around the operators that compilers support."""

from typing import cast

import pytest

import apass
from apass.errors import PassDefinitionError
from apass.relay.expr import Call, Expr
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.math import exp
from apass.relay.parser import fromtext
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.transform.annotate_target import AnnotateTarget, annotate_target
from tests.helpers.amounts import levels
from tests.helpers.relay.compilers import marks, supporting

HEADER = '#[version = "0.0.5"]\n'
TWO_INPUTS = HEADER + "def @main(%x: Tensor[(4), float32], %y: Tensor[(4), float32])"


def annotated(text: str, *targets: str, include_non_call_ops: bool = True) -> IRModule:
    return apass.run(AnnotateTarget(list(targets), include_non_call_ops), fromtext(text))


def test_supported_operators_get_marks_of_their_compiler() -> None:
    with supporting("a", ["add"]):
        result = annotated(TWO_INPUTS + "{ exp(add(%x, %y)) }", "a")
    expected = (
        TWO_INPUTS
        + """{
  %0 = annotation.compiler_begin(%x, compiler="a");
  %1 = annotation.compiler_begin(%y, compiler="a");
  %2 = add(%0, %1);
  %3 = annotation.compiler_end(%2, compiler="a");
  %4 = annotation.compiler_begin(%3, compiler="default");
  %5 = exp(%4);
  annotation.compiler_end(%5, compiler="default")
}"""
    )
    assert_structural_equal(result, fromtext(expected))
    assert result["main"].checked_type_ is not None


def test_first_supporting_target_gets_the_operator() -> None:
    text = TWO_INPUTS + "{ multiply(add(%x, %y), %y) }"
    with supporting("a", ["add"]), supporting("b", ["add", "multiply"]):
        assert marks(annotated(text, "a", "b")["main"]) == ["+a", "+a", "-a", "+b", "+b", "-b"]
        assert marks(annotated(text, "b", "a")["main"]) == ["+b", "+b", "-b", "+b", "+b", "-b"]
        assert marks(annotated(text, "c")["main"]) == ["+default", "+default", "-default"] * 2


def test_check_of_operator_gets_the_typed_call() -> None:
    text = HEADER + "def @main(%x: Tensor[(4), float32], %z: Tensor[(2), float32]) { (exp(%x), exp(%z)) }"

    def is_long(call: Call) -> bool:
        return str(call.args[0].checked_type) == "Tensor[(4), float32]"

    with supporting("a", ["exp"], is_long):
        assert marks(annotated(text, "a")["main"])[:4] == ["+a", "-a", "+default", "+default"]


def test_composite_function_belongs_to_compiler_of_its_name() -> None:
    text = (
        TWO_INPUTS
        + """{
  %0 = fn (%p: Tensor[(4), float32], Composite="a.exp") { exp(%p) };
  %1 = fn (%q: Tensor[(4), float32], Composite="a") { exp(%q) };
  %2 = fn (%r: Tensor[(4), float32], Composite="c.exp") { exp(%r) };
  (%0(%x), %1(%x), %2(%x))
}"""
    )
    main = annotated(text, "b", "a")["main"]
    assert sorted(set(marks(main))) == ["+a", "+default", "-a", "-default"]
    assert marks(main).count("+a") == 1


def test_tuple_takes_compiler_of_all_its_fields() -> None:
    same = TWO_INPUTS + "{ concatenate((add(%x, %y), add(%y, %x))) }"
    mixed = TWO_INPUTS + "{ concatenate((add(%x, %y), exp(%y))) }"
    with supporting("a", ["add", "concatenate"]):
        assert "+default" not in marks(annotated(same, "a")["main"])
        assert marks(annotated(mixed, "a")["main"])[-4:] == ["+default", "-default", "+a", "-a"]


def test_only_calls_are_marked_on_request() -> None:
    text = TWO_INPUTS + "{ let %t = (add(%x, %y), %x); if (True) { %t.0 } else { exp(%t.1) } }"
    with supporting("a", ["add", "exp"]):
        result = annotated(text, "a", include_non_call_ops=False)
    expected = (
        TWO_INPUTS
        + """{
  %0 = annotation.compiler_begin(%x, compiler="a");
  %1 = annotation.compiler_begin(%y, compiler="a");
  %2 = add(%0, %1);
  %3 = annotation.compiler_end(%2, compiler="a");
  %4 = (%3, %x);
  let %t = annotation.compiler_begin(%4, compiler="default");
  if (True) {
    %t.0
  } else {
    %5 = annotation.compiler_begin(%t.1, compiler="a");
    %6 = exp(%5);
    annotation.compiler_end(%6, compiler="a")
  }
}"""
    )
    assert_structural_equal(result, fromtext(expected))


def test_cells_and_fields_are_marked() -> None:
    text = TWO_INPUTS + "{ let %r = ref(add(%x, %y)); let %u = ref_write(%r, %x); (ref_read(%r), %y).0 }"
    with supporting("a", ["add"]):
        main = annotated(text, "a")["main"]
        assert marks(annotated(text, "a", include_non_call_ops=False)["main"]).count("+a") == 2
    assert marks(main)[:6] == ["+a", "+a", "-a", "+a", "-a", "+a"]
    assert marks(main)[-4:] == ["+default", "-default", "+default", "-default"]


def test_calls_without_operands_are_not_marked() -> None:
    text = HEADER + 'def @main() { (zeros(shape=[2], dtype="float32"), ()) }'
    with supporting("a", ["zeros"]):
        assert marks(annotated(text, "a", include_non_call_ops=False)["main"]) == []
        main = annotated(text, "a")["main"]
    assert marks(main) == ["+default", "+default", "-default"]


def test_second_run_keeps_marks_of_compilers() -> None:
    text = TWO_INPUTS + "{ multiply(add(%x, %y), exp(%y)) }"
    with supporting("a", ["add"]), supporting("b", ["multiply", "add"]):
        once = annotated(text, "a")
        assert_structural_equal(apass.run(AnnotateTarget("a"), once), once)
        # As in TVM, two runs equal one run with both compilers.
        assert_structural_equal(apass.run(AnnotateTarget("b"), once), annotated(text, "a", "b"))


def test_calls_of_variables_are_marked_for_default() -> None:
    text = TWO_INPUTS + "{ let %f = fn (%z: Tensor[(4), float32]) { exp(%z) }; %f(add(%x, %y)) }"
    with supporting("a", ["add", "exp"]):
        assert marks(annotated(text, "a")["main"]) == ["+a", "-a", "+a", "+a", "-a", "+default", "-default"]
        assert marks(annotated(text, "a", include_non_call_ops=False)["main"]) == ["+a", "-a", "+a", "+a", "-a"]


def test_marked_program_keeps_its_value() -> None:
    text = TWO_INPUTS + "{ let %f = fn (%z: Tensor[(4), float32]) { exp(%z) }; (%f(add(%x, %y)), (%x, %y).1) }"
    arguments = ([0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0])
    with supporting("a", ["add", "exp"]):
        before, after = (evaluate(mod, *arguments) for mod in (fromtext(text), annotated(text, "a")))
    assert str(before) == str(after)


def test_targets_must_be_names() -> None:
    with pytest.raises(PassDefinitionError, match="targets must be the names of compilers, got \\[1\\]"):
        AnnotateTarget(cast("list[str]", [1]))


def test_deep_programs_are_marked() -> None:
    x = var("x", shape=(2,))
    body: Expr = x
    for _ in range(levels(20_000)):
        body = exp(body)
    with supporting("a", ["exp"]):
        marked = annotate_target(Function([x], body), "a")
    assert len(marks(marked)) == 2 * levels(20_000)
