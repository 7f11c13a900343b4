"""`TypeUnifier`: which types are equal, and what the unknown ones in them stand for then."""

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
    """Return a type, and the same with unknown types in some places."""
    hole = IncompleteType()
    part = draw(TYPES)
    made = TupleType([draw(TYPES), RefType(part), FuncType([part], INT)])
    return made, TupleType([made.fields[0], RefType(hole), FuncType([hole], IncompleteType())])


@given(TYPES)
def test_a_type_equals_itself(ty: Type) -> None:
    unifier = TypeUnifier()
    assert unifier.unify(ty, ty) is ty
    assert unifier.resolve(ty) is ty


@given(TYPES, TYPES)
def test_types_without_unknown_ones_unify_only_if_they_are_equal(lhs: Type, rhs: Type) -> None:
    if lhs == rhs:
        assert TypeUnifier().unify(lhs, rhs) == lhs


@given(with_holes())
def test_unknown_types_become_what_stands_in_their_places(pair: tuple[Type, Type]) -> None:
    whole, holed = pair
    for lhs, rhs in ((whole, holed), (holed, whole)):
        unifier = TypeUnifier()
        assert (unifier.is_complete(holed), unifier.unknowns(holed) != []) == (False, True)
        unifier.unify(lhs, rhs)
        assert unifier.resolve(holed) == whole
        assert unifier.unknowns(holed) == []


def test_unknown_types_that_are_equal_become_known_together() -> None:
    unifier, unknown = TypeUnifier(), [IncompleteType() for _ in range(10)]
    for one, other in pairwise(unknown):
        unifier.unify(one, other)
    assert len({unifier.root(one) for one in unknown}) == 1
    unifier.unify(unknown[4], STATIC)
    assert {unifier.find(one) for one in unknown} == {STATIC}


def test_a_dimension_that_one_type_does_not_know_is_not_known() -> None:
    assert TypeUnifier().unify(STATIC, DYNAMIC) == TypeUnifier().unify(DYNAMIC, STATIC) == DYNAMIC


def test_what_an_unknown_type_stands_for_becomes_more_general() -> None:
    for flip in (False, True):
        unifier, unknown = TypeUnifier(), IncompleteType()
        unifier.unify(unknown, TupleType([STATIC, INT]))
        general = TupleType([DYNAMIC, INT])
        unifier.unify(*((general, unknown) if flip else (unknown, general)))
        assert unifier.resolve(RefType(unknown)) == RefType(general)


def test_both_types_may_be_less_general_than_what_they_become() -> None:
    other = TensorType((2, Any()))
    made = TypeUnifier().unify(TupleType([STATIC, DYNAMIC]), TupleType([other, STATIC]))
    assert made == TupleType([other, DYNAMIC])


def test_a_named_dimension_stands_for_one_number() -> None:
    n, m = ShapeVar("n"), ShapeVar("m")
    unifier = TypeUnifier()
    assert unifier.unify(TensorType((n, m)), TensorType((2, m))) == TensorType((2, m))
    assert unifier.unify(TensorType((5,)), TensorType((m,))) == TensorType((5,))
    with pytest.raises(TypeInferenceError, match="dimension 0 conflicts: n does not match 3"):
        unifier.unify(TensorType((n,)), TensorType((3,)))
    with pytest.raises(TypeInferenceError, match="dimension 0 conflicts: k does not match l"):
        unifier.unify(TensorType((ShapeVar("k"),)), TensorType((ShapeVar("l"),)))


def test_function_types_are_equal_up_to_the_names_of_their_parameters() -> None:
    lhs, rhs = FuncType([A], A, [A]), FuncType([B], B, [B])
    assert TypeUnifier().unify(lhs, rhs) == lhs
    assert lhs == rhs
    assert lhs != FuncType([B], INT, [B])
    assert lhs != FuncType([INT], INT)


def test_a_polymorphic_function_fits_one_that_is_not() -> None:
    for flip in (False, True):
        general, special = FuncType([A, B], A, [A, B]), FuncType([INT, FLOAT], INT)
        unifier = TypeUnifier()
        made = unifier.unify(*((general, special) if flip else (special, general)))
        assert unifier.resolve(made) == special


def test_relations_are_equal_if_what_they_relate_is() -> None:
    unknown = IncompleteType()
    lhs, rhs = (FuncType([INT], INT, [], [TypeRelation("add", [one], 0)]) for one in (unknown, INT))
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
def test_types_of_other_forms_do_not_match(lhs: Type, rhs: Type) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        TypeUnifier().unify(lhs, rhs)
    assert str(caught.value) == f"`{lhs}` does not match `{rhs}`"
    assert lhs != rhs


def test_a_type_cannot_contain_itself() -> None:
    unifier, unknown = TypeUnifier(), IncompleteType()
    unifier.unify(unknown, IncompleteType())
    with pytest.raises(TypeInferenceError, match="a type cannot contain itself"):
        unifier.unify(unknown, TupleType([RefType(unknown)]))


def test_a_type_that_failed_fits_everything() -> None:
    unifier, failed, other = TypeUnifier(), IncompleteType(), IncompleteType()
    unifier.fail(failed)
    assert (unifier.unify(failed, INT), unifier.unify(FLOAT, failed)) == (INT, FLOAT)
    unifier.unify(other, failed)
    assert (unifier.has_failed(other), unifier.any_failed) == (True, True)


def test_types_of_any_depth_unify() -> None:
    unknown = IncompleteType()
    lhs: Type = unknown
    rhs: Type = INT
    for _ in range(20_000):
        lhs, rhs = TupleType([lhs, INT]), TupleType([rhs, INT])
    unifier = TypeUnifier()
    unifier.unify(lhs, rhs)
    assert unifier.find(unknown) is INT
    assert unifier.resolve(lhs) == rhs
