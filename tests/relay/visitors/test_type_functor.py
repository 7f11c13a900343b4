"""Type functors: what is visited, in which order, and what comes back."""

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
from apass.relay.type_functor import TypeFunctor, TypeMutator, TypeVisitor, Visited

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
    """Makes float64 of all tensors."""

    def visit_tensor_type(self, tt: TensorType) -> Type:
        return TensorType(tt.shape, "float64")


class Renamer(TypeMutator):
    """Puts other variables and names in the places of those that there are."""

    def __init__(self) -> None:
        super().__init__()
        self.new = {A: TypeVar("c"), B: TypeVar("d")}

    def visit_type_var(self, tv: TypeVar) -> Type:
        return self.new[tv]

    def visit_global_type_var(self, gtv: GlobalTypeVar) -> Type:
        return GlobalTypeVar("Seq")


@BY_KIND
def test_a_functor_without_methods_visits_nothing(typ: Visited) -> None:
    class Nothing(TypeFunctor[None]):
        pass

    with pytest.raises(NotImplementedError, match=f"Nothing met a {type(typ).__name__} and has no visit_"):
        Nothing().visit(typ)


def test_what_is_no_type_cannot_be_visited() -> None:
    wrong: Any = "int32"
    with pytest.raises(TypeError, match="a str is no Relay type; TypeVisitor cannot visit it"):
        TypeVisitor().visit(wrong)


def test_a_functor_gives_what_its_methods_return() -> None:
    class Rank(TypeFunctor[int]):
        def visit_tensor_type(self, tt: TensorType) -> int:
            return len(tt.shape)

        def visit_tuple_type(self, tt: TupleType) -> int:
            return max(map(self.visit, tt.fields))

    assert Rank().visit(TupleType([TENSOR, TensorType((1, 2, 3))])) == 3


def test_a_misspelt_method_fails_when_the_class_is_created() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.visit_tensortype .* did you mean 'visit_tensor_type'"):
        type("Wrong", (TypeVisitor,), {"visit_tensortype": print})


def test_a_visitor_goes_over_everything_below_first() -> None:
    met: list[str] = []

    class Recorder(TypeVisitor):
        def visit_type_var(self, tv: TypeVar) -> None:
            met.append(tv.name_hint)

        def visit_tensor_type(self, tt: TensorType) -> None:
            met.append(str(tt))

        def visit_global_type_var(self, gtv: GlobalTypeVar) -> None:
            met.append(gtv.name_hint)

        def visit_incomplete_type(self, it: IncompleteType) -> None:
            met.append("?")

        def visit_tuple_type(self, tt: TupleType) -> None:
            super().visit_tuple_type(tt)
            met.append("tuple")

    def order(typ: Visited) -> list[str]:
        met.clear()
        Recorder().visit(typ)
        return met.copy()

    assert [order(one) for one in EVERY] == [
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
def test_a_mutator_that_changes_nothing_gives_the_same_object(typ: Visited) -> None:
    assert TypeMutator().visit(typ) is typ


def test_a_mutator_makes_new_types_where_something_changed() -> None:
    same = TupleType([A])
    made = Doubler().visit(TupleType([same, FuncType([TENSOR], RefType(TENSOR)), TypeCall(LIST, [TENSOR])]))
    assert isinstance(made, TupleType)
    assert str(made) == "((a,), fn (Tensor[(2), float64]) -> ref(Tensor[(2), float64]), List[Tensor[(2), float64]])"
    assert made.fields[0] is same


def test_a_mutator_may_rename_variables() -> None:
    assert [str(Renamer().visit(one)) for one in EVERY if isinstance(one, FuncType | TypeRelation | TypeCall)] == [
        "fn [c, d](c, Tensor[(2), float32]) -> d",
        "add(c, d)",
        "Seq[c]",
    ]
    data = Renamer().visit(EVERY[-1])
    assert isinstance(data, TypeData)
    assert (data.header, str(data.type_vars[0]), data.constructors) == (GlobalTypeVar("Seq"), "c", (NIL,))


def test_a_mutator_must_put_types_where_types_stand() -> None:
    class Wrong(TypeMutator):
        def visit_type_var(self, tv: TypeVar) -> Type:
            return TENSOR

    assert str(Wrong().visit(TupleType([A]))) == "(Tensor[(2), float32],)"
    with pytest.raises(TypeError, match="Wrong made a TensorType of a TypeVar; only a TypeVar can stand there"):
        Wrong().visit(FuncType([A], A, [A]))


def test_a_class_that_visits_a_kind_itself_decides_what_is_visited_below() -> None:
    class NotInFunctions(Doubler):
        def visit_func_type(self, ft: FuncType) -> Type:
            return ft

    kept = FuncType([TENSOR], TENSOR)
    assert str(NotInFunctions().visit(TupleType([TENSOR, kept]))) == f"(Tensor[(2), float64], {kept})"


def test_types_of_any_depth_are_visited_each_part_once() -> None:
    class Counter(TypeVisitor):
        count = 0

        def visit_tensor_type(self, tt: TensorType) -> None:
            self.count += 1

    deep: Type = TENSOR
    for _ in range(100_000):
        deep = TupleType([deep, deep])
    counter = Counter()
    counter.visit(deep)
    counter.visit(deep)
    assert counter.count == 2
    assert TypeMutator().visit(deep) is deep
    assert type(Doubler().visit(deep)) is TupleType
