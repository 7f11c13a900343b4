"""Visitors and mutators of types: order, results and depth."""

from typing import Any

import pytest

from apass.relay.adt import Constructor, TypeData
from apass.relay.ty import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from apass.relay.visitors.type_functor import TypeFunctor, TypeMutator, TypeVisitor, Visited
from tests.helpers.amounts import levels

A, B = TypeVar("a"), TypeVar("b")
TENSOR = TensorType((2,))
LIST = GlobalTypeVar("List")
NIL = Constructor("Nil", [], LIST)
EVERY: list[Visited] = [
    A,
    IncompleteType(),
    TENSOR,
    FuncType([A, TENSOR], B, [A, B], [TypeRelation("add", [A, B], 1)]),
    TupleType([TENSOR, TupleType([A])]),
    TypeRelation("add", [A, B], 1),
    RefType(TENSOR),
    LIST,
    TypeCall(LIST, [A]),
    TypeData(LIST, [A], [NIL]),
]
BY_KIND = pytest.mark.parametrize("typ", EVERY, ids=lambda typ: type(typ).__name__)


class Doubler(TypeMutator):
    """Changes all element types to float64."""

    def visit_tensor_type(self, tt: TensorType) -> Type:
        return TensorType(tt.shape, "float64")


class Renamer(TypeMutator):
    """Replaces type variables and data type names."""

    def __init__(self) -> None:
        super().__init__()
        self.new = {A: TypeVar("c"), B: TypeVar("d")}

    def visit_type_var(self, tv: TypeVar) -> Type:
        return self.new[tv]

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> Type:
        return GlobalTypeVar("Seq")


@BY_KIND
def test_missing_method_raises(typ: Visited) -> None:
    class Empty(TypeFunctor[None]):
        pass

    with pytest.raises(NotImplementedError, match=f"^Empty cannot visit a {type(typ).__name__}: define visit_"):
        Empty().visit(typ)


def test_visiting_other_object_raises() -> None:
    wrong: Any = "int32"
    with pytest.raises(TypeError, match=r"^TypeVisitor cannot visit a str: expected a Relay type$"):
        TypeVisitor().visit(wrong)


def test_functor_returns_results_of_methods() -> None:
    class Rank(TypeFunctor[int]):
        def visit_tensor_type(self, tt: TensorType) -> int:
            return len(tt.shape)

        def visit_tuple_type(self, tt: TupleType) -> int:
            return max(map(self.visit, tt.fields))

    assert Rank().visit(TupleType([TENSOR, TensorType((1, 2, 3))])) == 3


def test_misspelled_method_raises_at_class_creation() -> None:
    with pytest.raises(
        TypeError, match=r"unknown visitor method Wrong\.visit_tensortype; did you mean 'visit_tensor_type'"
    ):
        type("Wrong", (TypeVisitor,), {"visit_tensortype": print})


def test_visitor_visits_components_first() -> None:
    visited: list[str] = []

    class Recorder(TypeVisitor):
        def visit_type_var(self, tv: TypeVar) -> None:
            visited.append(tv.name_hint)

        def visit_tensor_type(self, tt: TensorType) -> None:
            visited.append(str(tt))

        def visit_global_type_var(self, gtv: GlobalTypeVar) -> None:
            visited.append(gtv.name_hint)

        def visit_incomplete_type(self, it: IncompleteType) -> None:
            visited.append("?")

        def visit_tuple_type(self, tt: TupleType) -> None:
            super().visit_tuple_type(tt)
            visited.append("tuple")

    def order(typ: Visited) -> list[str]:
        visited.clear()
        Recorder().visit(typ)
        return visited.copy()

    assert [order(typ) for typ in EVERY] == [
        ["a"],
        ["?"],
        ["Tensor[(2), float32]"],
        ["a", "Tensor[(2), float32]", "b"],
        ["Tensor[(2), float32]", "a", "tuple", "tuple"],
        ["a", "b"],
        ["Tensor[(2), float32]"],
        ["List"],
        ["List", "a"],
        ["List", "a"],
    ]


@BY_KIND
def test_unchanged_type_stays_same_object(typ: Visited) -> None:
    assert TypeMutator().visit(typ) is typ


def test_mutator_rebuilds_changed_types_only() -> None:
    same = TupleType([A])
    result = Doubler().visit(TupleType([same, FuncType([TENSOR], RefType(TENSOR)), TypeCall(LIST, [TENSOR])]))
    assert isinstance(result, TupleType)
    assert str(result) == "((a,), fn (Tensor[(2), float64]) -> ref(Tensor[(2), float64]), List[Tensor[(2), float64]])"
    assert result.fields[0] is same


def test_mutator_replaces_variables() -> None:
    assert [str(Renamer().visit(typ)) for typ in EVERY if isinstance(typ, FuncType | TypeRelation | TypeCall)] == [
        "fn [c, d](c, Tensor[(2), float32]) -> d",
        "add(c, d)",
        "Seq[c]",
    ]
    data = Renamer().visit(EVERY[-1])
    assert isinstance(data, TypeData)
    assert (data.header, str(data.type_vars[0]), data.constructors) == (GlobalTypeVar("Seq"), "c", (NIL,))


def test_replacing_type_parameter_by_type_raises() -> None:
    class Wrong(TypeMutator):
        def visit_type_var(self, tv: TypeVar) -> Type:
            return TENSOR

    assert str(Wrong().visit(TupleType([A]))) == "(Tensor[(2), float32],)"
    with pytest.raises(TypeError, match=r"^Wrong must rewrite this TypeVar to a TypeVar, got a TensorType$"):
        Wrong().visit(FuncType([A], A, [A]))


def test_overridden_method_decides_what_is_visited() -> None:
    class NotInFunctions(Doubler):
        def visit_func_type(self, ft: FuncType) -> Type:
            return ft

    skipped = FuncType([TENSOR], TENSOR)
    assert str(NotInFunctions().visit(TupleType([TENSOR, skipped]))) == f"(Tensor[(2), float64], {skipped})"


def test_deep_shared_components_are_visited_once() -> None:
    class Counter(TypeVisitor):
        count = 0

        def visit_tensor_type(self, tt: TensorType) -> None:
            self.count += 1

    deep: Type = TENSOR
    for _ in range(levels(100_000)):
        deep = TupleType([deep, deep])
    counter = Counter()
    counter.visit(deep)
    counter.visit(deep)
    assert counter.count == 2
    assert TypeMutator().visit(deep) is deep
    assert type(Doubler().visit(deep)) is TupleType
