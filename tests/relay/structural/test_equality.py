"""Structural equality, hash and fingerprint: rules, and agreement of all three."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from apass.core.diagnostics import Span
from apass.relay.adt import (
    Clause,
    Constructor,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    TypeData,
)
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)
from tests.helpers.relay.comparing import FLOAT, OP, Copier, F, equal


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAttrs(Attrs):
    """Attributes with fields of several types."""

    size: tuple[int, ...] = (1, 1)
    rate: float = 0.5
    layout: str = "NCHW"
    shape: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPoolAttrs(Attrs):
    """Attributes with the same fields, of another operator."""

    size: tuple[int, ...] = (1, 1)
    rate: float = 0.5
    layout: str = "NCHW"
    shape: tuple[object, ...] = ()


def test_parameter_names_are_ignored() -> None:
    a, b, x, y = (Var(name) for name in "abxy")
    assert equal(Function([a, b], Tuple([a, b])), Function([x, y], Tuple([x, y])))
    assert not equal(Function([a, b], Tuple([a, b])), Function([x, y], Tuple([y, x])))
    assert not equal(Function([a, b], Tuple([a, a])), Function([x, y], Tuple([x, y])))
    assert not equal(Function([a], const(1)), Function([x, y], const(1)))


def test_let_variable_names_are_ignored() -> None:
    a, b, x, y = (Var(name) for name in "abxy")
    assert equal(Let(a, const(1), Let(b, a, b)), Let(x, const(1), Let(y, x, y)))
    assert not equal(Let(a, const(1), Let(b, a, b)), Let(x, const(1), Let(y, x, x)))


def test_recursive_lets_are_equal() -> None:
    a, x = Var("a"), Var("x")
    assert equal(Let(a, Function([], Call(a, [])), a), Let(x, Function([], Call(x, [])), x))


def match_of(head: Var, tail: Var, used: Var) -> Expr:
    """Return a match that binds two variables and returns one."""
    cons = Constructor("Cons", [TypeVar("a")], GlobalTypeVar("List"))
    pattern = PatternConstructor(cons, [PatternVar(head), PatternTuple([PatternVar(tail), PatternWildcard()])])
    return Match(const(1), [Clause(pattern, used), Clause(PatternWildcard(), const(2))])


def test_pattern_variable_names_are_ignored() -> None:
    a, b, x, y = (Var(name) for name in "abxy")
    assert equal(match_of(a, b, a), match_of(x, y, x))
    assert not equal(match_of(a, b, a), match_of(x, y, y))


def test_matches_are_compared_by_clauses_and_completeness() -> None:
    clause = Clause(PatternWildcard(), const(1))
    assert equal(Match(const(0), [clause]), Match(const(0), [Clause(PatternWildcard(), const(1))]))
    assert not equal(Match(const(0), [clause]), Match(const(0), [clause], complete=False))
    assert not equal(Match(const(0), [clause]), Match(const(0), [clause, clause]))
    assert not equal(Match(const(0), [clause]), Match(const(0), [Clause(PatternTuple(), const(1))]))


def test_type_annotation_of_variable_is_compared() -> None:
    assert not equal(Function([Var("x", FLOAT)], const(1)), Function([Var("x")], const(1)))
    assert equal(Function([Var("x", FLOAT)], const(1)), Function([Var("y", TensorType((2,)))], const(1)))


def test_free_variable_equals_only_itself_unless_mapped() -> None:
    x, y = Var("x"), Var("x")
    assert equal(Call(OP, [x]), Call(OP, [x]))
    assert not equal(Call(OP, [x]), Call(OP, [y]))
    assert equal(Call(OP, [x]), Call(OP, [y]), map_free_vars=True)


def test_free_variables_are_mapped_one_to_one() -> None:
    x, y = Var("x"), Var("y")
    assert equal(Tuple([x, y, x]), Tuple([y, x, y]), map_free_vars=True)
    assert not equal(Tuple([x, y]), Tuple([x, x]), map_free_vars=True)
    assert not equal(x, Var("x", FLOAT), map_free_vars=True)


def test_variable_free_at_first_use_stays_free() -> None:
    x, y = Var("x"), Var("y")
    assert equal(Tuple([x, Function([x], x)]), Tuple([x, Function([x], x)]))
    assert not equal(Tuple([x, Function([x], x)]), Tuple([y, Function([y], y)]))


def test_shared_call_differs_from_two_equal_calls() -> None:
    x = Var("x")
    shared = Call(OP, [x])
    assert not equal(Tuple([shared, shared]), Tuple([Call(OP, [x]), Call(OP, [x])]))
    again = Call(OP, [x])
    assert equal(Tuple([shared, shared]), Tuple([again, again]))


MAKERS: dict[str, Callable[[Expr], Expr]] = {
    "tuple": lambda x: Tuple([x]),
    "if": lambda x: If(x, x, x),
    "function": lambda x: Function([], x),
    "let": lambda x: Let(Var("v"), x, x),
    "ref_create": RefCreate,
    "ref_read": RefRead,
    "ref_write": lambda x: RefWrite(x, x),
    "match": lambda x: Match(x, []),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_sharing_matters_for_nodes_with_children(kind: str) -> None:
    x, make = Var("x"), MAKERS[kind]
    assert equal(make(x), make(x))
    shared = make(x)
    assert not equal(Tuple([shared, shared]), Tuple([make(x), make(x)]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: const([1.0, 2.0]),
        lambda: Tuple([]),
        lambda: GlobalVar("f"),
        lambda: Op(name="test.other"),
        lambda: Constructor("Nil", [], GlobalTypeVar("List")),
        lambda: TupleGetItem(F, 0),
    ],
)
def test_leaves_and_fields_are_compared_by_value(make: Callable[[], Expr]) -> None:
    shared = make()
    assert equal(Tuple([shared, shared]), Tuple([make(), make()]))


def test_constants_are_compared_by_type_and_bits() -> None:
    assert equal(const([1.0, 2.0]), Constant(np.array([1, 2], "float32")))
    assert not equal(const([1.0, 2.0]), const([1.0, 2.0], "float64"))
    assert not equal(const([1.0, 2.0]), const([[1.0, 2.0]]))
    assert not equal(const([1.0, 2.0]), const([1.0, 3.0]))
    assert not equal(const(0.0), const(-0.0))
    assert equal(const(np.nan), const(np.nan))
    assert equal(Constant(np.zeros((0, 2))), Constant(np.zeros((0, 2))))
    assert not equal(Constant(np.zeros((0, 2))), Constant(np.zeros((2, 0))))
    assert equal(Constant(np.eye(3)[:, ::2]), Constant(np.eye(3)[:, ::2].copy()))


def test_digest_of_array_is_cached() -> None:
    data = const([1.0, 2.0]).data
    assert data.digest is data.digest


def test_attributes_are_compared_by_class_and_fields() -> None:
    assert equal(PoolAttrs(size=(2, 2)), PoolAttrs(size=(2, 2)))
    assert equal(PoolAttrs(rate=np.float64(0.5), shape=(np.int64(1), [2])), PoolAttrs(shape=(1, (2,))))
    assert not equal(PoolAttrs(), OtherPoolAttrs())
    assert not equal(PoolAttrs(), PoolAttrs(layout="NHWC"))
    assert not equal(PoolAttrs(size=(1, 2)), PoolAttrs(size=(2, 1)))
    assert not equal(PoolAttrs(size=(1, 2)), PoolAttrs(size=(1,)))
    assert not equal(Call(OP, [F], PoolAttrs()), Call(OP, [F]))
    assert equal(Call(OP, [F], PoolAttrs()), Call(OP, [F], PoolAttrs()))


def test_attribute_values_are_compared_by_structure() -> None:
    n, m = ShapeVar("n"), ShapeVar("n")
    assert equal(
        PoolAttrs(shape=(1, Any(), FLOAT, np.dtype("int8"))), PoolAttrs(shape=(1, Any(), FLOAT, np.dtype("i1")))
    )
    assert not equal(PoolAttrs(shape=(n,)), PoolAttrs(shape=(m,)))
    assert equal(PoolAttrs(shape=(n,)), PoolAttrs(shape=(m,)), map_free_vars=True)


def test_function_attributes_are_compared_regardless_of_order() -> None:
    func = Function([], const(1))
    annotated = func.with_attr({"Primitive": 1, "Composite": "conv"})
    assert equal(annotated, func.with_attr("Composite", "conv").with_attr("Primitive", 1))
    assert not equal(annotated, func)
    assert not equal(annotated, func.with_attr({"Primitive": 2, "Composite": "conv"}))


def test_span_and_inferred_type_are_ignored() -> None:
    span = Span("main.relay", 1, 1, 1, 2)
    assert equal(Call(OP, [F], span=span, checked_type_=FLOAT), Call(OP, [F]))


def test_type_arguments_of_operator_calls_are_ignored() -> None:
    assert equal(Call(OP, [F], None, [FLOAT]), Call(OP, [F]))
    assert not equal(Call(F, [F], None, [FLOAT]), Call(F, [F]))
    assert equal(Call(F, [F], None, [FLOAT]), Call(F, [F], None, [TensorType((2,))]))


def test_annotated_result_type_is_compared() -> None:
    assert not equal(Function([], const(1), FLOAT), Function([], const(1)))


def test_type_parameter_names_are_ignored() -> None:
    def identity(name: str, other: str, kind: Kind = Kind.Type) -> Function:
        first, second = TypeVar(name, kind), TypeVar(other)
        x = Var("x", first)
        return Function([x], x, TupleType([first, second]), [first, second])

    assert equal(identity("a", "b"), identity("p", "q"))
    assert not equal(identity("a", "b"), identity("a", "b", Kind.ShapeVar))


def test_dimension_names_in_parameters_are_ignored() -> None:
    def square(first: ShapeVar, second: ShapeVar) -> Function:
        x = Var("x", TensorType((first, second)))
        return Function([x], x, TensorType((first, second)))

    n, m, k = (ShapeVar(name) for name in "nmk")
    assert equal(square(n, n), square(m, m))
    assert equal(square(n, m), square(m, k))
    assert not equal(square(n, n), square(n, m))


def function_type(name: str) -> FuncType:
    """Return a generic function type."""
    a = TypeVar(name)
    relation = TypeRelation("same", [a, a], 1, PoolAttrs())
    return FuncType([a, RefType(a)], TypeCall(GlobalTypeVar("List"), [a]), [a], [relation])


def test_types_are_compared_by_structure() -> None:
    types: list[Type] = [
        TensorType((1, 2)),
        TensorType((1, 2), "int8"),
        TensorType((1, Any())),
        TensorType((2, 1)),
        TensorType(()),
        TupleType([]),
        TupleType([FLOAT]),
        TupleType([FLOAT, FLOAT]),
        RefType(FLOAT),
        GlobalTypeVar("List"),
        GlobalTypeVar("Tree"),
        TypeCall(GlobalTypeVar("List"), [FLOAT]),
        FuncType([FLOAT], FLOAT),
        FuncType([], FLOAT),
        function_type("a"),
        IncompleteType(),
        TypeVar("a"),
    ]
    assert [[equal(a, b) for b in types] for a in types] == [[a is b for b in types] for a in types]


def test_separately_built_types_are_equal() -> None:
    assert equal(function_type("a"), function_type("b"))
    assert equal(TensorType((1, Any())), TensorType((1, Any())))
    assert not equal(TypeVar("a"), TypeVar("a"))
    assert equal(TypeVar("a"), TypeVar("a"), map_free_vars=True)
    assert not equal(IncompleteType(), IncompleteType())


def list_module(names: list[str], body: Expr, var: str = "a") -> IRModule:
    """Return a module with a list type and functions with these names."""
    a, header = TypeVar(var), GlobalTypeVar("List")
    cons = Constructor("Cons", [a, TypeCall(header, [a])], header)
    mod = IRModule({}, {header: TypeData(header, [a], [cons, Constructor("Nil", [], header)])})
    for name in names:
        mod[name] = Function([], body)
    return mod


def test_modules_are_compared_by_name() -> None:
    assert equal(list_module(["f", "g"], const(1)), list_module(["g", "f"], const(1), "b"))
    assert not equal(list_module(["f", "g"], const(1)), list_module(["f", "h"], const(1)))
    assert not equal(list_module(["f", "g"], const(1)), list_module(["f"], const(1)))
    assert not equal(list_module(["f"], const(1)), list_module(["f"], const(2)))
    assert not equal(list_module(["f"], const(1)), IRModule({GlobalVar("f"): Function([], const(1))}))


def test_sharing_between_functions_is_ignored() -> None:
    func, arg = Function([x := Var("x")], Call(OP, [x])), const(1)
    copied = Copier().visit(func)
    both, again = (
        IRModule({F: Function([], Call(func, [arg])), GlobalVar("g"): Function([], Call(other, [arg]))})
        for other in (func, copied)
    )
    assert equal(both, again)
    assert equal([func, both, func], [func, again, func])
    assert not equal([func, both, func], [func, again, copied])


def test_containers_arrays_and_scalars_are_compared() -> None:
    params = {"w": const([1.0]).data, "b": const(2).data}
    assert equal(params, {"b": const(2).data, "w": const([1.0]).data})
    assert not equal(params, {"w": const([1.0]).data})
    assert equal(params, {"w": np.array([1.0], "float32"), "b": np.array(2, "int32")})
    assert equal([F, 1, "a"], (GlobalVar("f"), 1, "a"))
    assert not equal([F, 1], [F, True])
    assert not equal([1], [1.0])


def test_comparing_other_object_raises() -> None:
    with pytest.raises(TypeError, match="cannot compare a set by structure"):
        structural_equal([{1}], [{1}])


def itself(attrs: Attrs) -> object:
    return attrs


def in_call(attrs: Attrs) -> object:
    return Call(OP, [], attrs)


def in_list(attrs: Attrs) -> object:
    return [attrs, attrs]


@pytest.mark.parametrize("wrap", [itself, in_call, in_list])
def test_floats_are_equal_within_a_tolerance(wrap: Callable[[Attrs], object]) -> None:
    rates = [PoolAttrs(rate=0.5), PoolAttrs(rate=0.5 + 5e-10), PoolAttrs(rate=0.5 + 2e-9)]
    first, near, far = map(wrap, rates)
    assert equal(first, near)
    assert equal(near, first)
    assert not structural_equal(first, far)
    assert not structural_equal(near, far)
    # Nodes that share attributes on one side only are equal too.
    assert structural_equal([rates[0], rates[0]], [rates[0], rates[1]])
    assert structural_equal(1.0, 1.0 + 1e-10)
    assert not structural_equal([1.0, "a"], [1.0 + 1e-10, "b"])
    nan = PoolAttrs(rate=float("nan"))
    assert structural_equal(wrap(nan), wrap(PoolAttrs(rate=float("nan"))))
    assert not structural_equal(wrap(nan), first)


def test_nested_lists_of_floats_take_linear_time() -> None:
    first: object = 1.0
    second: object = 1.0 + 1e-10
    for _ in range(100):
        first, second = [first, first], [second, second]
    assert structural_equal(first, second)


def test_kinds_of_type_parameters_matter() -> None:
    a, b, dim = TypeVar("a"), TypeVar("b"), TypeVar("n", Kind.ShapeVar)
    plain = FuncType([FLOAT], FLOAT, [a])
    assert equal(plain, FuncType([FLOAT], FLOAT, [b]))
    assert not structural_equal(plain, FuncType([FLOAT], FLOAT, [dim]))
    assert plain != FuncType([FLOAT], FLOAT, [dim])


def test_parameters_as_keys_of_attributes_are_mapped() -> None:
    def func(names: str, swapped: bool) -> Function:
        first, second = Var(names[0]), Var(names[1])
        values = {first: const(1), second: const(2)}
        entries = dict(reversed(values.items())) if swapped else values
        return Function([first, second], Tuple([first, second]), attrs={"Params": entries})

    assert equal(func("ab", False), func("xy", True))
    other = Function([a := Var("a"), b := Var("b")], Tuple([a, b]), attrs={"Params": {a: const(2), b: const(1)}})
    assert not structural_equal(func("ab", False), other)
    free = Var("free")
    assert equal({free: 1, F: 2}, {F: 2, free: 1})
    assert not structural_equal({free: 1}, {Var("free"): 1})
