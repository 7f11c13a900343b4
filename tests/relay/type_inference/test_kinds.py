"""`check_kind`: the kinds of types, and errors for ill-formed types."""

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
from tests.helpers.amounts import levels

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
def test_type_has_kind(ty: Type, kind: Kind) -> None:
    assert check_kind(ty, MODULE) is kind


def test_data_type_definition_has_kind() -> None:
    assert check_kind(DATA) is Kind.TypeData


@pytest.mark.parametrize(
    ("ty", "message"),
    [
        (TupleType([SHAPE]), "incorrect kind for the tuple member: `s` inside `(s,)` has kind ShapeVar, expected Type"),
        (RefType(BASE), "incorrect kind for the ref contents: `b` inside `ref(b)` has kind BaseType, expected Type"),
        (
            FuncType([SHAPE], TENSOR),
            (
                "incorrect kind for the function type parameter: `s` inside `fn (s) -> Tensor[(1, ?), float32]` "
                "has kind ShapeVar, expected Type"
            ),
        ),
        (
            FuncType([], TupleType([LIST])),
            "incorrect kind for the tuple member: `List` inside `(List,)` has kind AdtHandle, expected Type",
        ),
        (
            FuncType([], BASE),
            "incorrect kind for the function return type: `b` inside `fn () -> b` has kind BaseType, expected Type",
        ),
        (
            TypeRelation("r", [BASE], 0),
            "incorrect kind for the argument to type relation: `b` inside `r(b)` has kind BaseType, expected Type",
        ),
        (
            TypeCall(TENSOR, []),
            "the callee in `Tensor[(1, ?), float32]` must be the name of a data type, found `Tensor[(1, ?), float32]`",
        ),
        (
            TypeCall(GlobalTypeVar("List", Kind.Type), [TENSOR]),
            (
                "incorrect kind for the type call function: `List` inside `List[Tensor[(1, ?), float32]]` "
                "has kind Type, expected AdtHandle"
            ),
        ),
        (
            TypeCall(LIST, [SHAPE]),
            "incorrect kind for the type call argument: `s` inside `List[s]` has kind ShapeVar, expected Type",
        ),
        (TypeCall(LIST, []), "`List` has 0 type arguments, but `List` requires 1"),
        (TypeCall(GlobalTypeVar("Tree"), []), "the data type `Tree` is not defined; the module has: List"),
    ],
    ids=str,
)
def test_ill_formed_type_raises(ty: Type, message: str) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        check_kind(ty, MODULE)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            TypeData(GlobalTypeVar("T", Kind.Type), [], []),
            "the name of the data type `T` has kind Type, expected AdtHandle",
        ),
        (TypeData(LIST, [SHAPE], []), "the type variable `s` of `List` has kind ShapeVar, expected Type"),
        (
            TypeData(LIST, [], [Constructor("Nil", [], GlobalTypeVar("Tree"))]),
            "constructor `Nil` belongs to `Tree`, but is listed in `List`",
        ),
        (
            TypeData(LIST, [], [Constructor("One", [BASE], LIST)]),
            "incorrect kind for the ADT constructor input: `b` inside `List` has kind BaseType, expected Type",
        ),
    ],
)
def test_ill_formed_data_type_raises(data: TypeData, message: str) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        check_kind(data)
    assert str(caught.value) == message


def test_data_type_is_undefined_without_module() -> None:
    with pytest.raises(TypeInferenceError, match="the data type `List` is not defined; the module has: none"):
        check_kind(TypeCall(LIST, [TENSOR]))


def test_deep_type_has_kind() -> None:
    ty: Type = TENSOR
    for _ in range(levels(100_000)):
        ty = TupleType([ty, ty])
    assert check_kind(ty) is Kind.Type
