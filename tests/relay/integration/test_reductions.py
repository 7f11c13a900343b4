"""Reduced Relay modules are well-formed, and keep their types."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apass.relay.function import Function
from apass.relay.integration.adapter import ADAPTER
from apass.relay.integration.reductions import shrinkings
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.text.parsing.reader import read_module
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount

REDUCTIONS = [
    "functions",
    "expressions replaced by constants",
    "expressions replaced by their first part",
    "expressions replaced by their last part",
    "parameters",
]


def read(body: str) -> IRModule:
    """Return a typed module."""
    return parse(f'#[version = "0.0.5"]\n{body}')


def without_all(mod: IRModule, name: str) -> str:
    """Return the text of a module with every reduction of one kind applied."""
    (reduction,) = [reduction for reduction in shrinkings(mod) if reduction.what == name]
    return str(reduction.without(frozenset(range(reduction.count))))


@given(programs(refs=True), st.data())
@settings(max_examples=amount(60), suppress_health_check=[HealthCheck.too_slow])
def test_expressions_are_replaced_by_others_of_their_type(program: Program, data: st.DataObject) -> None:
    mod, arguments = infer_module(program[0]), program[1]
    reductions = list(shrinkings(mod))
    assert [reduction.what for reduction in reductions] == REDUCTIONS
    for reduction in reductions[1:4]:
        if not reduction.count:
            continue
        numbers = data.draw(st.sets(st.integers(0, reduction.count - 1), min_size=1))
        smaller = reduction.without(frozenset(numbers))
        ADAPTER.verify(smaller)
        assert str(smaller["main"].checked_type) == str(mod["main"].checked_type)
        assert structural_equal(infer_module(ADAPTER.loads(ADAPTER.dumps(smaller))), smaller)
        with np.errstate(all="ignore"):
            evaluate(smaller, *arguments)


def test_let_is_replaced_by_body_when_unused() -> None:
    mod = read("def @main(%x: int32) -> int32 {\n  let %a = add(%x, 1);\n  let %b = add(%a, 2);\n  add(%a, 3)\n}\n")
    (reduction,) = [
        reduction for reduction in shrinkings(mod) if reduction.what == "expressions replaced by their first part"
    ]
    assert reduction.count == 4
    assert [str(reduction.without(frozenset({number}))).count("let") for number in range(4)] == [1, 2, 2, 2]
    assert without_all(mod, "expressions replaced by their first part").count("add") == 0


def test_large_constants_become_zeros_and_unused_parameters_disappear() -> None:
    mod = read("def @main(%x: Tensor[(40), float32], %y: Tensor[(40), float32]) {\n  add(%x, tanh(%x))\n}\n")
    assert 'zeros(shape=[40], dtype="float32")' in without_all(mod, "expressions replaced by constants")
    x = var("x", shape=(40,))
    weights = infer_module(IRModule.from_expr(Function([x], add(x, const(np.ones(40), "float32")))))
    (reduction,) = [
        reduction for reduction in shrinkings(weights) if reduction.what == "expressions replaced by constants"
    ]
    assert (reduction.count, str(reduction.without(frozenset({1}))).count("zeros")) == (2, 1)
    assert "%y" not in without_all(mod, "parameters")


def test_untyped_module_can_only_lose_functions() -> None:
    mod = read_module('#[version = "0.0.5"]\ndef @main(%x: int32) {\n  add(%x, %x, %x)\n}\n')
    assert [reduction.what for reduction in shrinkings(mod)] == ["functions"]
