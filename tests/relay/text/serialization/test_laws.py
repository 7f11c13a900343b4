"""A program that is written and read is the same program, with the same locations."""

from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from apass.relay.expr import Call, Constant, Expr, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import OPS, const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing import lenet
from apass.relay.testing.programs import Program, programs
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import save_json
from apass.relay.ty import FuncType, RefType, TensorType, Type, TypeVar
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels
from tests.relay.hard_programs import HARD_PROGRAMS
from tests.relay.text.syntax import modules

DEPTH = levels(100_000)


def again(mod: IRModule) -> IRModule:
    """Return a module that was written and read."""
    result = load_json(save_json(mod))
    assert isinstance(result, IRModule)
    return result


def parts(mod: IRModule) -> Iterator[Expr]:
    """Iterate over the expressions of the functions of a module."""
    for func in mod.functions.values():
        yield from post_order(func)


def assert_same(mod: IRModule) -> None:
    """Assert that a module is the same after it was written and read."""
    loaded = again(mod)
    assert_structural_equal(loaded, mod, map_free_vars=True)
    assert [(expr.span, str(expr.checked_type_)) for expr in parts(loaded)] == [
        (expr.span, str(expr.checked_type_)) for expr in parts(mod)
    ]
    assert loaded.source_map == mod.source_map
    assert save_json(loaded) == save_json(mod)


@given(modules())
def test_module_is_the_same_afterwards(mod: IRModule) -> None:
    assert_same(read_module(mod.astext()))


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_typed_program_is_the_same_afterwards(program: Program) -> None:
    assert_same(infer_module(program[0]))


@pytest.mark.parametrize("text", [text for text, _ in HARD_PROGRAMS.values()], ids=HARD_PROGRAMS)
def test_hard_program_is_the_same_afterwards(text: str) -> None:
    mod = read_module(text)
    assert_same(mod)
    assert_same(infer_module(mod))


def test_prelude_is_the_same_afterwards() -> None:
    assert_same(Prelude().mod)


def test_model_computes_the_same_afterwards() -> None:
    mod, params = lenet.get_workload()
    assert_same(mod)
    data = np.random.default_rng(0).random((1, 1, 28, 28), "float32")
    arguments = [params.get(param.name_hint, data) for param in mod["main"].params]
    assert difference(evaluate(mod, *arguments), evaluate(again(mod), *arguments)) == ""


@pytest.mark.parametrize("name", sorted(name for name, op in OPS.items() if op.attrs_type is not None))
def test_attributes_of_every_operator_are_the_same(name: str) -> None:
    attrs = sample(Op.get(name))
    assert load_json(save_json(attrs)) == attrs


def sample(op: Op) -> Attrs:
    """Return attributes of an operator, with a sample for each required field."""
    assert op.attrs_type is not None
    names = op.attrs_type.__dataclass_fields__
    chosen: dict[str, object] = {}
    while True:
        try:
            attrs = op.make_attrs(**chosen)
        except TypeError as error:
            missing = str(error).rpartition("'")[0].rpartition("'")[2]
            annotation = str(names[missing].type)
            chosen[missing] = next(value for kind, value in SAMPLES.items() if kind in annotation)
        else:
            assert attrs is not None
            return attrs


SAMPLES: dict[str, object] = {
    "tuple[tuple": ((1, 2), (0, 3)),
    "tuple": (1, 2),
    "float": 0.5,
    "bool": True,
    "int": 3,
    "str": "NCHW",
}
"""A value for each kind of annotation."""


def test_shared_nodes_stay_shared() -> None:
    x, y = var("x", shape=(2,)), var("y")
    value = x + y
    data = const([1.0])
    loaded = load_json(save_json(Tuple([value, Tuple([value, data]), data, x])))
    assert isinstance(loaded, Tuple)
    first, inner, last, x_again = loaded.fields
    assert isinstance(inner, Tuple)
    assert isinstance(first, Call)
    assert inner.fields[0] is first
    assert inner.fields[1] is last
    assert first.args[0] is x_again


def test_constants_of_one_array_share_it() -> None:
    data = const(np.ones(1000, "float32")).data
    text = save_json([Constant(data), Constant(data)])
    assert len(text) < 2 * len(save_json(Constant(data)))
    first, second = cast("tuple[Constant, Constant]", load_json(text))
    assert first is not second
    assert first.data is second.data


def chain_of_calls(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(DEPTH):
        expr = Call(Op.get("negative"), [expr])
    return expr


def chain_of_lets(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(DEPTH):
        expr = Let(Var("y"), x, expr)
    return expr


def chain_of_tuples(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(DEPTH // 2):
        expr = TupleGetItem(Tuple([expr]), 0)
    return expr


def chain_of_branches(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(DEPTH):
        expr = If(x, expr, x)
    return expr


@pytest.mark.parametrize("chain", [chain_of_calls, chain_of_lets, chain_of_tuples, chain_of_branches])
def test_deep_programs_are_the_same_afterwards(chain: Callable[[Var], Expr]) -> None:
    x = var("x", "bool")
    func = Function([x], chain(x))
    assert_structural_equal(load_json(save_json(func)), func)


def test_deep_type_is_the_same_afterwards() -> None:
    ty: Type = TensorType((2,))
    for _ in range(DEPTH):
        ty = RefType(ty)
    assert load_json(save_json(ty)) == ty


def test_type_parameters_keep_their_binding() -> None:
    a = TypeVar("a")
    ty = FuncType([a, FuncType([a], a, [a])], a, [a])
    assert load_json(save_json(ty)) == ty


def test_values_of_every_kind_are_the_same() -> None:
    values: dict[str, object] = {
        "none": None,
        "flag": True,
        "one": 1,
        "large": 2**63 - 1,
        "half": 0.5,
        "text": "",
        "list": (1, ("a",)),
        "map": {},
    }
    loaded = cast("dict[str, object]", load_json(save_json(values)))
    assert loaded == values
    assert [type(value) for value in loaded.values()] == [type(value) for value in values.values()]
    by_variable = cast("dict[object, int]", load_json(save_json({var("x"): 1})))
    assert [type(key) for key in by_variable] == [Var]
    assert load_json(save_json(np.float64(0.5))) == 0.5
    assert load_json(save_json([np.int64(3), np.bool_(True), np.dtype("int8")])) == (3, True, "int8")
