"""Nested types: structural equality, hash and text at any depth."""

from collections.abc import Callable

import pytest

from apass.relay.expr import Expr, Tuple
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import var
from apass.relay.ir.module import IRModule
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
from tests.helpers.amounts import levels

DEPTH = levels(20_000)
INT = TensorType((), "int32")
FLOAT = TensorType((), "float32")
LIST = GlobalTypeVar("List")
A, B = TypeVar("a"), TypeVar("b")


def nested(wrap: Callable[[Type], Type], innermost: Type = INT, depth: int = DEPTH) -> Type:
    """Return a type wrapped `depth` times."""
    result = innermost
    for _ in range(depth):
        result = wrap(result)
    return result


WRAPS: list[tuple[Callable[[Type], Type], str, str]] = [
    (lambda ty: TupleType([ty]), "(", ",)"),
    (RefType, "ref(", ")"),
    (lambda ty: TypeCall(LIST, [ty]), "List[", "]"),
    (lambda ty: FuncType([FLOAT], ty), "fn (float32) -> ", ""),
    (lambda ty: FuncType([ty], FLOAT), "fn (", ") -> float32"),
]


@pytest.mark.parametrize(("wrap", "before", "after"), WRAPS, ids=["tuple", "ref", "call", "result", "parameter"])
def test_depth_is_not_limited(wrap: Callable[[Type], Type], before: str, after: str) -> None:
    first, equal, other = nested(wrap), nested(wrap), nested(wrap, FLOAT)
    assert (first == equal, first != other, hash(first) == hash(equal)) == (True, True, True)
    assert str(first) == before * DEPTH + "int32" + after * DEPTH
    assert repr(first) == f"<relay.{type(first).__name__} {first}>"
    assert structural_equal(first, equal)


def test_shared_parts_are_visited_once() -> None:
    first, equal = (nested(lambda ty: TupleType([ty, ty]), depth=200) for _ in range(2))
    assert (first == equal, hash(first) == hash(equal)) == (True, True)


def test_deep_type_is_parsed_inferred_and_evaluated() -> None:
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


def test_bound_variables_are_compared_by_position() -> None:
    first, equal = FuncType([A, B], A, [A, B]), FuncType([B, A], B, [B, A])
    assert (first == equal, hash(first) == hash(equal)) == (True, True)
    assert FuncType([A, B], B, [A, B]) != first
    assert FuncType([A], A, [B]) != FuncType([A], A, [A])
    assert FuncType([B], B, [A]) != FuncType([B], B, [B])
    assert FuncType([A], INT) != FuncType([B], INT)


def test_variable_is_bound_only_in_its_function() -> None:
    inner, equal = FuncType([A], A, [A]), FuncType([B], B, [B])
    assert TupleType([A, inner]) == TupleType([A, equal])
    assert hash(TupleType([A, inner])) == hash(TupleType([A, equal]))
    assert TupleType([A, inner]) != TupleType([B, equal])
    assert TupleType([inner, A]) != TupleType([equal, B])


def test_inner_function_type_shadows_outer_variable() -> None:
    outer = FuncType([A], FuncType([A], A, [A]), [A])
    assert outer == FuncType([A], FuncType([B], B, [B]), [A])
    assert outer != FuncType([A], FuncType([B], A, [B]), [A])


def test_relations_are_compared_by_structure() -> None:
    relation = TypeRelation("add", [INT, INT], 1)
    assert relation == TypeRelation("add", [INT, INT], 1)
    assert str(relation) == "add(int32, int32)"
    assert relation not in (TypeRelation("add", [INT, INT], 2), TypeRelation("sub", [INT, INT], 1), INT)


def test_types_of_different_kinds_are_unequal() -> None:
    assert TupleType([INT]) not in (RefType(INT), INT, (INT,), None)
