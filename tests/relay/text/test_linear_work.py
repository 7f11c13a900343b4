"""Printing and parsing of types takes work in proportion to the text."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING
from typing import TypeVar as PythonTypeVar

import pytest

from apass.relay.analysis import all_dtypes
from apass.relay.expr import Expr, Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const
from apass.relay.ir.module import IRModule
from apass.relay.text.limits import TextLimits
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext
from apass.relay.ty import FuncType, GlobalTypeVar, RefType, TensorType, TupleType, Type, TypeCall, TypeVar
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels

if TYPE_CHECKING:
    from _typeshed import TraceFunction

T = PythonTypeVar("T")

INT = TensorType((), "int32")
MATRIX = TensorType((1, 2))
LIST = GlobalTypeVar("List")
LIMITS = TextLimits(type_params=10**6)
WRAPS: dict[str, Callable[[Type], Type]] = {
    "tuple": lambda ty: TupleType([ty]),
    "pair": lambda ty: TupleType([MATRIX, ty]),
    "reference": RefType,
    "call": lambda ty: TypeCall(LIST, [ty]),
    "result": lambda ty: FuncType([MATRIX], ty),
    "parameter": lambda ty: FuncType([ty], INT),
    "generic": lambda ty: FuncType([ty], INT, [TypeVar("a")]),
}


def nested(wrap: Callable[[Type], Type], depth: int) -> Type:
    """Return a type wrapped `depth` times."""
    ty: Type = INT
    for _ in range(depth):
        ty = wrap(ty)
    return ty


def module_of(ty: Type) -> IRModule:
    """Return a module whose function has a parameter of a type."""
    x = Var("x", ty)
    types = read_module("type List[a] { Nil, }").type_definitions
    return IRModule({"main": Function([x], x, ty)}, types)


def steps(work: Callable[[], object]) -> int:
    """Return the number of executed lines and calls."""
    count = 0

    def trace(_frame: FrameType, _event: str, _arg: object) -> "TraceFunction":
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(make: Callable[[int], T], work: Callable[[T], object]) -> None:
    """Assert that work on a tenfold object takes about ten times the steps."""
    first, second = (steps(partial(work, make(depth))) for depth in (200, 2000))
    assert second < 11 * first


@pytest.mark.slow
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_text_of_nested_type_is_linear_work(wrap: Callable[[Type], Type]) -> None:
    def module_of_depth(depth: int) -> IRModule:
        return module_of(nested(wrap, depth))

    def parsed(text: str) -> IRModule:
        return read_module(text, limits=LIMITS)

    assert parsed(astext(module_of_depth(9)))["main"].ret_type == nested(wrap, 9)  # builds the parse tables, too
    assert_linear(module_of_depth, astext)
    assert_linear(module_of_depth, str)
    assert_linear(lambda depth: astext(module_of_depth(depth)), parsed)
    assert_linear(lambda depth: nested(wrap, depth), str)
    assert_linear(lambda depth: nested(wrap, depth), hash)
    assert_linear(lambda depth: (nested(wrap, depth), nested(wrap, depth)), lambda types: types[0] == types[1])
    assert_linear(lambda depth: module_of_depth(depth)["main"], all_dtypes)


def test_text_of_nested_parentheses_is_linear_work() -> None:
    assert_linear(lambda depth: f"def @main(%x: {'(' * depth}int32{')' * depth}) {{ %x }}", read_module)


def lets(depth: int) -> IRModule:
    """Return a module with a chain of lets of nested tuples."""
    variables = [Var("x") for _ in range(depth)]
    body: Expr = variables[-1]
    for index in range(depth - 1, 0, -1):
        body = Let(variables[index], Tuple([variables[index - 1]]), body)
    return infer_module(IRModule({"main": Function([], Let(variables[0], const(1), body))}))


def test_types_of_chain_of_lets_are_linear_work() -> None:
    read_module(astext(lets(2)))
    assert_linear(lets, astext)
    assert_linear(lambda depth: lets(depth)["main"], all_dtypes)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_type_of_any_depth_round_trips(wrap: Callable[[Type], Type]) -> None:
    ty = nested(wrap, levels(100_000))
    parsed = read_module(astext(module_of(ty)), limits=LIMITS)["main"]
    assert parsed.params[0].type_annotation == parsed.ret_type == ty
    assert len(str(ty)) > levels(100_000)
    assert "..." not in str(ty)


def test_variables_of_nested_binders_are_compared_by_position() -> None:
    a, b, c, d = (TypeVar(name) for name in "aabb")
    inner = FuncType([a, b], a, [b])
    first, same = FuncType([inner], a, [a]), FuncType([FuncType([c, d], c, [d])], c, [c])
    other = FuncType([FuncType([c, d], d, [d])], c, [c])
    assert first == same != other
    shadowed = FuncType([FuncType([a], a, [a]), a], a, [a])
    assert shadowed == FuncType([FuncType([d], d, [d]), c], c, [c])
    assert shadowed != FuncType([FuncType([d], d, [d]), d], c, [c])
    assert FuncType([a], a, [a]) != FuncType([a], c, [c])
    assert TupleType([FuncType([a], a, [a]), a]) != TupleType([FuncType([c], c, [c]), c])
    assert TupleType([FuncType([a], a, [a]), a]) == TupleType([FuncType([c], c, [c]), a])


def test_name_of_type_parameter_is_free_after_scope() -> None:
    a, b, c = TypeVar("a"), TypeVar("a"), TypeVar("a")
    pair = TupleType([FuncType([FuncType([a, b], b, [b])], a, [a]), FuncType([c], c, [c])])
    assert astext(pair).splitlines()[1] == "(fn [a](fn [a1](a, a1) -> a1) -> a, fn [a](a) -> a)"
    assert str(IRModule({"main": Function([Var("x", pair)], const(1), None, [TypeVar("a"), TypeVar("a1")])})) == (
        "def @main[a, a1](%x: (fn [a2](fn [a3](a2, a3) -> a3) -> a2, fn [a2](a2) -> a2)) {\n  1\n}\n"
    )
