"""`check_kind`: the kinds of types, and what is said of types that are put together wrongly."""

import pytest

from apass.relay.adt import Constructor, TypeData
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.module import IRModule
from apass.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.type_inference.kinds import check_kind

TENSOR = TensorType((1, Any()))
SHAPE, BASE = TypeVar("s", Kind.ShapeVar), TypeVar("b", Kind.BaseType)
RELATION = TypeRelation("add", [TENSOR, TENSOR], 1)
LIST, ITEM = GlobalTypeVar("List"), TypeVar("A")
DATA = TypeData(LIST, [ITEM], [Constructor("Cons", [ITEM, TypeCall(LIST, [ITEM])], LIST), Constructor("Nil", [], LIST)])
MODULE = IRModule(type_definitions={LIST: DATA})


@pytest.mark.parametrize(
    ("ty", "kind"),
    [
        (TENSOR, Kind.Type),
        (TypeVar("a"), Kind.Type),
        (SHAPE, Kind.ShapeVar),
        (BASE, Kind.BaseType),
        (IncompleteType(), Kind.Type),
        (IncompleteType(Kind.Constraint), Kind.Constraint),
        (LIST, Kind.AdtHandle),
        (TupleType([TENSOR, TupleType()]), Kind.Type),
        (RefType(TENSOR), Kind.Type),
        (RELATION, Kind.Constraint),
        (FuncType([TENSOR], TENSOR, [TypeVar("a")], [RELATION]), Kind.Type),
        (TypeCall(LIST, [TENSOR]), Kind.Type),
    ],
    ids=str,
)
def test_a_type_has_a_kind(ty: Type, kind: Kind) -> None:
    assert check_kind(ty, MODULE) is kind


def test_the_definition_of_a_data_type_has_a_kind() -> None:
    assert check_kind(DATA) is Kind.TypeData


@pytest.mark.parametrize(
    ("ty", "complaint"),
    [
        (TupleType([SHAPE]), "incorrect kind for the tuple member: `s` inside `(s,)` is of kind ShapeVar, not Type"),
        (RefType(BASE), "incorrect kind for the ref contents: `b` inside `ref(b)` is of kind BaseType, not Type"),
        (
            FuncType([SHAPE], TENSOR),
            (
                "incorrect kind for the function type parameter: `s` inside `fn (s) -> Tensor[(1, ?), float32]` "
                "is of kind ShapeVar, not Type"
            ),
        ),
        (
            FuncType([], TupleType([LIST])),
            "incorrect kind for the tuple member: `List` inside `(List,)` is of kind AdtHandle, not Type",
        ),
        (
            FuncType([], BASE),
            "incorrect kind for the function return type: `b` inside `fn () -> b` is of kind BaseType, not Type",
        ),
        (
            TypeRelation("r", [BASE], 0),
            "incorrect kind for the argument to type relation: `b` inside `r(b)` is of kind BaseType, not Type",
        ),
        (
            TypeCall(TENSOR, []),
            "the callee in `Tensor[(1, ?), float32]` must be the name of a data type, but is `Tensor[(1, ?), float32]`",
        ),
        (
            TypeCall(GlobalTypeVar("List", Kind.Type), [TENSOR]),
            (
                "incorrect kind for the type call function: `List` inside `List[Tensor[(1, ?), float32]]` "
                "is of kind Type, not AdtHandle"
            ),
        ),
        (
            TypeCall(LIST, [SHAPE]),
            "incorrect kind for the type call argument: `s` inside `List[s]` is of kind ShapeVar, not Type",
        ),
        (TypeCall(LIST, []), "`List` gives 0 type arguments, but `List` takes 1"),
        (TypeCall(GlobalTypeVar("Tree"), []), "the data type `Tree` is not defined; the module has: List"),
    ],
    ids=str,
)
def test_a_type_that_is_put_together_wrongly_has_none(ty: Type, complaint: str) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        check_kind(ty, MODULE)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            TypeData(GlobalTypeVar("T", Kind.Type), [], []),
            "the name of the data type `T` is of kind Type, not AdtHandle",
        ),
        (TypeData(LIST, [SHAPE], []), "the type variable `s` of `List` is of kind ShapeVar, not Type"),
        (
            TypeData(LIST, [], [Constructor("Nil", [], GlobalTypeVar("Tree"))]),
            "constructor `Nil` is of `Tree`, but is listed in `List`",
        ),
        (
            TypeData(LIST, [], [Constructor("One", [BASE], LIST)]),
            "incorrect kind for the ADT constructor input: `b` inside `List` is of kind BaseType, not Type",
        ),
    ],
)
def test_a_data_type_that_is_put_together_wrongly_has_none(data: TypeData, complaint: str) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        check_kind(data)
    assert str(caught.value) == complaint


def test_without_a_module_no_data_type_is_known() -> None:
    with pytest.raises(TypeInferenceError, match="the data type `List` is not defined; the module has: none"):
        check_kind(TypeCall(LIST, [TENSOR]))


def test_types_may_be_nested_deeply() -> None:
    ty: Type = TENSOR
    for _ in range(100_000):
        ty = TupleType([ty, ty])
    assert check_kind(ty) is Kind.Type
