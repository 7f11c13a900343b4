"""What is left of a Relay module when parts of it are left out keeps the rules of the IR, and its types."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apass.relay.function import Function
from apass.relay.integration.adapter import ADAPTER
from apass.relay.integration.reductions import shrinkings
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.type_inference.infer import infer_module
from tests.relay.programs import Program, programs

WAYS = [
    "functions",
    "expressions for constants",
    "expressions for their first part",
    "expressions for their last part",
    "parameters",
]


def read(body: str) -> IRModule:
    """Return a typed module."""
    return parse(f'#[version = "0.0.5"]\n{body}')


def without_all(mod: IRModule, what: str) -> str:
    """Return the text of a module without all parts of a kind."""
    (way,) = [way for way in shrinkings(mod) if way.what == what]
    return str(way.without(frozenset(range(way.count))))


@given(programs(refs=True), st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_expressions_give_way_to_others_of_their_type(program: Program, data: st.DataObject) -> None:
    mod, arguments = infer_module(program[0]), program[1]
    ways = list(shrinkings(mod))
    assert [way.what for way in ways] == WAYS
    for way in ways[1:4]:
        if not way.count:
            continue
        numbers = data.draw(st.sets(st.integers(0, way.count - 1), min_size=1))
        smaller = way.without(frozenset(numbers))
        ADAPTER.verify(smaller)
        assert str(smaller["main"].checked_type) == str(mod["main"].checked_type)
        assert structural_equal(infer_module(ADAPTER.loads(ADAPTER.dumps(smaller))), smaller)
        with np.errstate(all="ignore"):
            evaluate(smaller, *arguments)


def test_a_let_gives_way_to_its_body_where_that_does_not_use_it() -> None:
    mod = read("def @main(%x: int32) -> int32 {\n  let %a = add(%x, 1);\n  let %b = add(%a, 2);\n  add(%a, 3)\n}\n")
    (way,) = [way for way in shrinkings(mod) if way.what == "expressions for their first part"]
    assert way.count == 4
    assert [str(way.without(frozenset({number}))).count("let") for number in range(4)] == [1, 2, 2, 2]
    assert without_all(mod, "expressions for their first part").count("add") == 0


def test_big_constants_give_way_to_zeros_and_parameters_go_that_nothing_uses() -> None:
    mod = read("def @main(%x: Tensor[(40), float32], %y: Tensor[(40), float32]) {\n  add(%x, tanh(%x))\n}\n")
    assert 'zeros(shape=[40], dtype="float32")' in without_all(mod, "expressions for constants")
    x = var("x", shape=(40,))
    weights = infer_module(IRModule.from_expr(Function([x], add(x, const(np.ones(40), "float32")))))
    (way,) = [way for way in shrinkings(weights) if way.what == "expressions for constants"]
    assert (way.count, str(way.without(frozenset({1}))).count("zeros")) == (2, 1)
    assert "%y" not in without_all(mod, "parameters")


def test_of_a_module_without_types_only_functions_can_be_left_out() -> None:
    mod = read_module('#[version = "0.0.5"]\ndef @main(%x: int32) {\n  add(%x, %x, %x)\n}\n')
    assert [way.what for way in shrinkings(mod)] == ["functions"]
