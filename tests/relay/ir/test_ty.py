"""Types within types: equality, hash and text go by structure, to any depth."""

from collections.abc import Callable

import pytest

from apass.relay.expr import Expr, Tuple
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.make import var
from apass.relay.parser import parse
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import (
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.type_inference.infer import infer_module

DEPTH = 20_000
INT = TensorType((), "int32")
FLOAT = TensorType((), "float32")
LIST = GlobalTypeVar("List")
A, B = TypeVar("a"), TypeVar("b")


def nested(wrap: Callable[[Type], Type], innermost: Type = INT, depth: int = DEPTH) -> Type:
    """Return a type within types."""
    made = innermost
    for _ in range(depth):
        made = wrap(made)
    return made


WRAPS: list[tuple[Callable[[Type], Type], str, str]] = [
    (lambda ty: TupleType([ty]), "(", ",)"),
    (RefType, "ref(", ")"),
    (lambda ty: TypeCall(LIST, [ty]), "List[", "]"),
    (lambda ty: FuncType([FLOAT], ty), "fn (float32) -> ", ""),
    (lambda ty: FuncType([ty], FLOAT), "fn (", ") -> float32"),
]


@pytest.mark.parametrize(("wrap", "before", "after"), WRAPS, ids=["tuple", "ref", "call", "result", "parameter"])
def test_depth_is_no_limit(wrap: Callable[[Type], Type], before: str, after: str) -> None:
    one, like, other = nested(wrap), nested(wrap), nested(wrap, FLOAT)
    assert (one == like, one != other, hash(one) == hash(like)) == (True, True, True)
    assert str(one) == before * DEPTH + "int32" + after * DEPTH
    assert repr(one) == f"<relay.{type(one).__name__} {one}>"
    assert structural_equal(one, like)


def test_a_part_that_is_shared_is_looked_at_once() -> None:
    one, like = (nested(lambda ty: TupleType([ty, ty]), depth=200) for _ in range(2))
    assert (one == like, hash(one) == hash(like)) == (True, True)


def test_a_program_with_a_deep_type_goes_all_the_way() -> None:
    value: Expr = var("x", "int32")
    for _ in range(3000):
        value = Tuple([value])
    mod = infer_module(IRModule.from_expr(value))
    assert structural_equal(parse(mod.astext()), mod)
    result = evaluate(mod, 1)
    for _ in range(3000):
        assert isinstance(result, tuple)
        (result,) = result
    assert int(str(result)) == 1


def test_bound_variables_are_equal_by_their_places_and_free_ones_by_themselves() -> None:
    one, like = FuncType([A, B], A, [A, B]), FuncType([B, A], B, [B, A])
    assert (one == like, hash(one) == hash(like)) == (True, True)
    assert FuncType([A, B], B, [A, B]) != one
    assert FuncType([A], A, [B]) != FuncType([A], A, [A])
    assert FuncType([B], B, [A]) != FuncType([B], B, [B])
    assert FuncType([A], INT) != FuncType([B], INT)


def test_a_variable_is_bound_only_within_its_function() -> None:
    inner, like = FuncType([A], A, [A]), FuncType([B], B, [B])
    assert TupleType([A, inner]) == TupleType([A, like])
    assert hash(TupleType([A, inner])) == hash(TupleType([A, like]))
    assert TupleType([A, inner]) != TupleType([B, like])
    assert TupleType([inner, A]) != TupleType([like, B])


def test_an_inner_function_hides_the_variable_of_an_outer_one() -> None:
    outer = FuncType([A], FuncType([A], A, [A]), [A])
    assert outer == FuncType([A], FuncType([B], B, [B]), [A])
    assert outer != FuncType([A], FuncType([B], A, [B]), [A])


def test_relations_are_equal_by_name_types_and_number_of_inputs() -> None:
    one = TypeRelation("add", [INT, INT], 1)
    assert one == TypeRelation("add", [INT, INT], 1)
    assert str(one) == "add(int32, int32)"
    assert one not in (TypeRelation("add", [INT, INT], 2), TypeRelation("sub", [INT, INT], 1), INT)


def test_types_of_other_kinds_and_what_is_no_type_are_not_equal() -> None:
    assert TupleType([INT]) not in (RefType(INT), INT, (INT,), None)
