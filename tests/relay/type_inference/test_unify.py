"""`TypeUnifier`: unification of types, and the resulting known types."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.relay.errors import TypeInferenceError
from apass.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.type_inference.unify import TypeUnifier
from tests.helpers.amounts import levels

INT, FLOAT = TensorType((), "int32"), TensorType((), "float32")
STATIC, DYNAMIC = TensorType((2, 3)), TensorType((Any(), 3))
A, B, LIST = TypeVar("a"), TypeVar("b"), GlobalTypeVar("List")

LEAVES = st.sampled_from([INT, FLOAT, STATIC, TypeCall(LIST, []), A, B])


def types_within(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    some = st.lists(inner, max_size=3)
    return st.one_of(
        st.builds(TupleType, some),
        st.builds(RefType, inner),
        st.builds(TypeCall, st.just(LIST), some),
        st.builds(FuncType, some, inner),
        st.builds(FuncType, some, inner, st.just([A])),
    )


TYPES = st.recursive(LEAVES, types_within, max_leaves=8)


@st.composite
def with_holes(draw: st.DrawFn) -> tuple[Type, Type]:
    """Return a type, and the same type with some parts replaced by unknown types."""
    hole = IncompleteType()
    part = draw(TYPES)
    whole = TupleType([draw(TYPES), RefType(part), FuncType([part], INT)])
    return whole, TupleType([whole.fields[0], RefType(hole), FuncType([hole], IncompleteType())])


@given(TYPES)
def test_type_unifies_with_itself(ty: Type) -> None:
    unifier = TypeUnifier()
    assert unifier.unify(ty, ty) is ty
    assert unifier.resolve(ty) is ty


@given(TYPES, TYPES)
def test_equal_types_unify(lhs: Type, rhs: Type) -> None:
    if lhs == rhs:
        assert TypeUnifier().unify(lhs, rhs) == lhs


@given(with_holes())
def test_unknown_types_are_resolved(pair: tuple[Type, Type]) -> None:
    whole, holed = pair
    for lhs, rhs in ((whole, holed), (holed, whole)):
        unifier = TypeUnifier()
        assert (unifier.is_complete(holed), unifier.unknowns(holed) != []) == (False, True)
        unifier.unify(lhs, rhs)
        assert unifier.resolve(holed) == whole
        assert unifier.unknowns(holed) == []


def test_unified_unknown_types_share_known_type() -> None:
    unifier, unknown = TypeUnifier(), [IncompleteType() for _ in range(10)]
    for first, second in pairwise(unknown):
        unifier.unify(first, second)
    assert len({unifier.root(ty) for ty in unknown}) == 1
    unifier.unify(unknown[4], STATIC)
    assert {unifier.find(ty) for ty in unknown} == {STATIC}


def test_dimension_unknown_in_one_type_is_unknown() -> None:
    assert TypeUnifier().unify(STATIC, DYNAMIC) == TypeUnifier().unify(DYNAMIC, STATIC) == DYNAMIC


def test_known_type_of_unknown_type_generalizes() -> None:
    for flip in (False, True):
        unifier, unknown = TypeUnifier(), IncompleteType()
        unifier.unify(unknown, TupleType([STATIC, INT]))
        general = TupleType([DYNAMIC, INT])
        unifier.unify(*((general, unknown) if flip else (unknown, general)))
        assert unifier.resolve(RefType(unknown)) == RefType(general)


def test_unified_type_may_generalize_both_types() -> None:
    other = TensorType((2, Any()))
    unified = TypeUnifier().unify(TupleType([STATIC, DYNAMIC]), TupleType([other, STATIC]))
    assert unified == TupleType([other, DYNAMIC])


def test_named_dimension_matches_one_number() -> None:
    n, m = ShapeVar("n"), ShapeVar("m")
    unifier = TypeUnifier()
    assert unifier.unify(TensorType((n, m)), TensorType((2, m))) == TensorType((2, m))
    assert unifier.unify(TensorType((5,)), TensorType((m,))) == TensorType((5,))
    with pytest.raises(TypeInferenceError, match="dimension 0 conflicts: n does not match 3"):
        unifier.unify(TensorType((n,)), TensorType((3,)))
    with pytest.raises(TypeInferenceError, match="dimension 0 conflicts: k does not match l"):
        unifier.unify(TensorType((ShapeVar("k"),)), TensorType((ShapeVar("l"),)))


def test_function_types_unify_up_to_parameter_names() -> None:
    lhs, rhs = FuncType([A], A, [A]), FuncType([B], B, [B])
    assert TypeUnifier().unify(lhs, rhs) == lhs
    assert lhs == rhs
    assert lhs != FuncType([B], INT, [B])
    assert lhs != FuncType([INT], INT)


def test_polymorphic_function_type_unifies_with_instance() -> None:
    for flip in (False, True):
        general, special = FuncType([A, B], A, [A, B]), FuncType([INT, FLOAT], INT)
        unifier = TypeUnifier()
        unified = unifier.unify(*((general, special) if flip else (special, general)))
        assert unifier.resolve(unified) == special


def test_relations_unify_when_arguments_unify() -> None:
    unknown = IncompleteType()
    lhs, rhs = (FuncType([INT], INT, [], [TypeRelation("add", [ty], 0)]) for ty in (unknown, INT))
    unifier = TypeUnifier()
    assert unifier.resolve(unifier.unify(lhs, rhs)) == rhs


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (TupleType([INT]), TupleType([INT, INT])),
        (FuncType([INT, INT], INT), FuncType([INT], INT, [], [TypeRelation("add", [INT], 0)])),
        (TypeCall(LIST, [INT]), TypeCall(GlobalTypeVar("Tree"), [INT])),
        (RefType(INT), TupleType([INT])),
        (A, B),
    ],
    ids=str,
)
def test_types_of_different_forms_do_not_match(lhs: Type, rhs: Type) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        TypeUnifier().unify(lhs, rhs)
    assert str(caught.value) == f"`{lhs}` does not match `{rhs}`"
    assert lhs != rhs


def test_recursive_type_raises() -> None:
    unifier, unknown = TypeUnifier(), IncompleteType()
    unifier.unify(unknown, IncompleteType())
    with pytest.raises(TypeInferenceError, match="a type cannot contain itself"):
        unifier.unify(unknown, TupleType([RefType(unknown)]))


def test_failed_type_unifies_with_everything() -> None:
    unifier, failed, other = TypeUnifier(), IncompleteType(), IncompleteType()
    unifier.fail(failed)
    assert (unifier.unify(failed, INT), unifier.unify(FLOAT, failed)) == (INT, FLOAT)
    unifier.unify(other, failed)
    assert (unifier.has_failed(other), unifier.any_failed) == (True, True)


def test_deep_types_unify() -> None:
    unknown = IncompleteType()
    lhs: Type = unknown
    rhs: Type = INT
    for _ in range(levels(20_000)):
        lhs, rhs = TupleType([lhs, INT]), TupleType([rhs, INT])
    unifier = TypeUnifier()
    unifier.unify(lhs, rhs)
    assert unifier.find(unknown) is INT
    assert unifier.resolve(lhs) == rhs
