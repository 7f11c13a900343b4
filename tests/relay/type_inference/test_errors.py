"""What type inference says of a program that has no types: which expression, what was expected and what was found."""

from collections.abc import Iterable

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, TypeData
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import FuncType, GlobalTypeVar, Kind, TensorType, TupleType, TypeCall, TypeVar
from apass.relay.type_inference.errors import describe, describe_pattern
from apass.relay.type_inference.infer import infer_expr, infer_module

X, Y, COND = var("x", shape=(2, 3)), var("y", shape=(4, 3)), var("c", "bool")
LIST, ITEM = GlobalTypeVar("List"), TypeVar("A")
NIL = Constructor("Nil", [], LIST)
CONS = Constructor("Cons", [ITEM, TypeCall(LIST, [ITEM])], LIST)
LISTS = IRModule(type_definitions={LIST: TypeData(LIST, [ITEM], [CONS, NIL])})
CANNOT = "cannot infer the type of this expression; too little is known, an annotation may help"


def message(program: Expr | IRModule, mod: IRModule | None = None) -> str:
    """Return what is said of a program that has no types, without the indentation."""
    with pytest.raises(TypeInferenceError) as caught:
        _ = infer_module(program) if isinstance(program, IRModule) else infer_expr(program, mod)
    return "\n".join(line.strip() for line in str(caught.value).split("\n"))


def complaints(program: Expr | IRModule, mod: IRModule | None = None) -> list[str]:
    """Return the first line of each error."""
    return [line.removeprefix("error: ") for line in message(program, mod).split("\n") if line.startswith("error:")]


def test_all_errors_of_a_module_come_at_once_with_their_places() -> None:
    source = (
        "def @main(%x: Tensor[(2), float32], %y: int32) {\n"
        "  let %z = (%x, %y).2;\n"
        "  if (nn.relu(%x)) { %x } else { %x }\n"
        "}\n"
        "def @f(%x: int32) -> float32 {\n"
        "  @main(1f, %x).0\n"
        "}\n"
    )
    assert message(read_module(source, "bad.relay")) == (
        "error: in `(...).2`: there is no field 2: the type `(Tensor[(2), float32], int32)` has 2 fields\n"
        "--> bad.relay:2:12\n"
        "|\n"
        "2 |   let %z = (%x, %y).2;\n"
        "|            ^^^^^^^^^^\n"
        "|\n"
        "= in function main\n"
        "\n"
        "error: in `if (nn.relu(...)) { %x } else { %x }`: the condition `nn.relu(%x)` must be a scalar of type bool: "
        "expected `bool`, found `Tensor[(2), float32]`\n"
        "the element types differ\n"
        "--> bad.relay:3:7\n"
        "|\n"
        "3 |   if (nn.relu(%x)) { %x } else { %x }\n"
        "|       ^^^^^^^^^^^\n"
        "|\n"
        "= in function main"
    )


def test_a_program_that_was_not_parsed_has_no_places() -> None:
    assert message(add(X, Y)) == (
        "error: in `add(%x, %y)`: add: the shapes (2, 3) and (4, 3) cannot be broadcast: "
        "two dimensions must be equal, or one of them 1"
    )


Z, F = var("z"), var("f")

PLAIN: Iterable[tuple[Expr, str]] = [
    (
        If(COND, X, Tuple([X])),
        (
            "in `if (%c) { %x } else { (...) }`: the branches are of different types: "
            "expected `Tensor[(2, 3), float32]`, found `(Tensor[(2, 3), float32],)`"
        ),
    ),
    (X[0], "in `%x.0`: only a tuple has fields, but the value is of type `Tensor[(2, 3), float32]`"),
    (
        TupleGetItem(Tuple([X]), -1),
        "in `(...).-1`: there is no field -1: the type `(Tensor[(2, 3), float32],)` has 1 fields",
    ),
    (
        Call(X, [Y]),
        "in `%x(%y)`: only functions can be called; `%x` is of type `Tensor[(2, 3), float32]`",
    ),
    (
        Call(Function([X], X), [X, X]),
        "in `fn ...(%x, %x)`: the function is provided too many arguments: expected 1, found 2",
    ),
    (Call(Function([X], X), []), "in `fn ...()`: the function is provided too few arguments: expected 1, found 0"),
    (
        Call(Function([X], X), [const(1)]),
        "in `fn ...(1)`: argument 1, `1`, does not fit: expected `Tensor[(2, 3), float32]`, found `int32`",
    ),
    (
        Call(Function([X], X), [X], None, [TensorType()]),
        "in `fn ...(%x)`: expected at most 0 type arguments, found 1",
    ),
    (
        Call(Op.get("add"), [X]),
        "in `add(%x)`: the operator add is provided too few arguments: expected 2 (lhs, rhs), found 1",
    ),
    (
        Call(Op.get("sum"), [X]),
        "in `sum(%x)`: the call has no attributes; sum needs ReduceAttrs, see Op.make_attrs",
    ),
    (
        Function([X], X, TensorType((2,))),
        (
            "in `fn (%x) { %x }`: the body `%x` does not fit the type of the result: "
            "expected `Tensor[(2), float32]`, found `Tensor[(2, 3), float32]`"
        ),
    ),
    (
        Let(var("v", "int32"), X, X),
        (
            "in `let %v = %x; ...`: `%v` is bound to a value of another type: "
            "expected `int32`, found `Tensor[(2, 3), float32]`"
        ),
    ),
    (
        RefWrite(RefCreate(X), const(1.0)),
        (
            "in `ref_write(ref(...), 1.0)`: the cell holds another type than `1.0`: "
            "expected `Tensor[(2, 3), float32]`, found `float32`"
        ),
    ),
    (RefRead(X), "in `ref_read(%x)`: `%x` is no reference: expected `ref(?)`, found `Tensor[(2, 3), float32]`"),
    (GlobalVar("f"), "in `@f`: the module has no function @f"),
    (NIL, "in `Nil`: the data type `List` is not defined in the module"),
    (Function([Z], Z), f"in `%z`: {CANNOT}"),
    (Function([F], Call(F, [X])), f"in `%f(%x)`: {CANNOT}"),
    (Function([Z], add(add(Z, Z), X)), f"in `%z`: {CANNOT}"),
    (Let(Z, add(Z, X), Z), "in `let %z = add(...); ...`: `%z` is used before it is bound, or bound more than once"),
    (
        Function([v := var("v", FuncType([TypeCall(LIST, [])], TensorType()))], v),
        "in `%v`: the data type `List` is not defined; the module has: none",
    ),
    (
        Function([v := var("v", TypeVar("n", Kind.ShapeVar))], v),
        "in `%v`: `n` is of kind ShapeVar: it is not the type of any value",
    ),
]


@pytest.mark.parametrize(("program", "complaint"), PLAIN, ids=[said for _, said in PLAIN])
def test_an_error_names_the_expression_and_the_types(program: Expr, complaint: str) -> None:
    assert complaints(program)[0] == complaint


def test_a_conflict_of_dimensions_is_told_for_each_dimension() -> None:
    assert message(If(COND, X, var("z", shape=(5, 6)))).split("\n")[1] == (
        "dimension 0 conflicts: 2 does not match 5, dimension 1 conflicts: 3 does not match 6"
    )


def test_a_conflict_deep_within_types_is_told() -> None:
    lhs, rhs = Tuple([COND, Tuple([X])]), Tuple([COND, Tuple([Function([X], X)])])
    assert message(If(COND, lhs, rhs)).split("\n")[1] == (
        "`Tensor[(2, 3), float32]` does not match `fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]`"
    )


def test_a_conflict_of_ranks_is_told() -> None:
    assert message(If(COND, X, var("z", shape=(5,)))).split("\n")[1] == (
        "`Tensor[(2, 3), float32]` has 2 dimensions, while `Tensor[(5), float32]` has 1"
    )


def test_a_function_that_is_given_to_itself_has_no_type() -> None:
    assert "a type cannot contain itself" in message(Function([F], Call(F, [F])))


def test_an_error_is_told_once_and_not_for_what_follows_from_it() -> None:
    wrong = add(X, Y)
    program = Tuple([add(wrong, wrong), Call(Function([X], X), [wrong]), wrong[0], If(COND, wrong, X)])
    assert len(complaints(program)) == 1


def test_an_error_in_one_function_is_not_told_of_its_callers() -> None:
    source = "def @f(%x: int32) { add(%x, 1f) }\ndef @main(%y) { add(@f(%y), @f(2)) }"
    assert complaints(read_module(source)) == [
        "in `add(%x, 1.0)`: add: the element types differ: int32 and float32; cast to one of them"
    ]


def test_a_misspelt_function_is_told_with_the_right_name() -> None:
    assert complaints(read_module("def @loss() { 1 }\ndef @main() { @los() }")) == [
        "in `@los`: the module has no function @los; did you mean 'loss'?"
    ]


def test_each_of_several_functions_is_named() -> None:
    source = "def @f(%a) { if (True) { %a } else { @g(%a) } }\ndef @g(%b) { @f(%b) }\ndef @h(%e) { %e }"
    told = [line for line in message(read_module(source)).split("\n") if line.startswith(("error", "= in"))]
    assert told == [f"error: in `%a`: {CANNOT}", "= in function f", f"error: in `%e`: {CANNOT}", "= in function h"]


def a_match(*clauses: Clause) -> Match:
    return Match(Call(CONS, [X, Call(NIL, [])]), clauses)


HEAD, TAIL = var("head"), var("tail")
WHOLE = PatternConstructor(CONS, [PatternVar(HEAD), PatternVar(TAIL)])


@pytest.mark.parametrize(
    ("match", "complaint"),
    [
        (
            a_match(Clause(PatternConstructor(NIL), X)),
            "the match does not handle the following cases: `Cons(_, _)`",
        ),
        (
            a_match(Clause(PatternConstructor(CONS, [PatternVar(HEAD)]), X)),
            "`Cons` takes 2 arguments, but `Cons(%head)` has 1",
        ),
        (
            a_match(Clause(WHOLE, HEAD), Clause(PatternConstructor(NIL), Y)),
            "the clauses are of different types: expected `Tensor[(2, 3), float32]`, found `Tensor[(4, 3), float32]`",
        ),
        (
            Match(X, [Clause(PatternConstructor(NIL), X)]),
            "the pattern `Nil` does not fit the value: expected `List[?]`, found `Tensor[(2, 3), float32]`",
        ),
        (
            a_match(Clause(PatternVar(var("v", "int32")), X)),
            "`%v` is bound to a value of another type: expected `int32`, found `List[Tensor[(2, 3), float32]]`",
        ),
    ],
)
def test_what_is_wrong_with_a_match_is_told(match: Match, complaint: str) -> None:
    assert complaints(match, LISTS) == [f"in `{describe(match)}`: {complaint}"]


def test_an_error_that_is_no_matter_of_types_is_not_taken_for_one() -> None:
    class BrokenError(Exception):
        pass

    def relation(types: object, attrs: object) -> None:
        raise BrokenError

    op = Op(name="broken", arguments=("data",), num_inputs=1, relation=relation)
    with pytest.raises(BrokenError) as caught:
        infer_expr(Call(op, [X]))
    assert caught.value.__notes__ == [
        "this was raised by the type relation of <relay.Call of <relay.Op broken>>, given Tensor[(2, 3), float32], ?"
    ]


def test_what_is_no_expression_has_no_type() -> None:
    class Strange(Expr):
        __slots__ = ()

    with pytest.raises(TypeError, match="is no Relay expression; it has no type"):
        infer_expr(Strange())


def test_large_types_are_told_in_short() -> None:
    lhs: Expr = const(1)
    rhs: Expr = const(1.0)
    for _ in range(2_000):
        lhs, rhs = Tuple([lhs]), Tuple([rhs])
    assert message(If(COND, lhs, rhs)).split("\n") == [
        (
            "error: in `if (%c) { (...) } else { (...) }`: the branches are of different types: "
            "expected `<a large TupleType>`, found `<a large TupleType>`"
        ),
        "`int32` does not match `float32`: the element types differ",
    ]


def test_expressions_are_described_as_in_the_text() -> None:
    func = Function([X], X)
    described = [
        describe(one)
        for one in (
            X,
            GlobalVar("f"),
            Constant([1.0, 2.0]),
            Tuple([X]),
            Tuple([Let(Z, X, X), If(COND, X, X), func, a_match(), RefCreate(X), RefRead(X), RefWrite(X, X)]),
            add(X[0], add(X, X)),
            Call(func, [Call(func, [])]),
            Call(NIL, []),
        )
    ]
    assert described == [
        "%x",
        "@f",
        "<constant Tensor[(2), float64]>",
        "(%x,)",
        "(let ..., if ..., fn ..., match ..., ref(...), ref_read(...), ref_write(...))",
        "add((...).0, add(...))",
        "fn ...(...())",
        "Nil()",
    ]


def test_patterns_are_described_as_in_the_text() -> None:
    assert describe_pattern(WHOLE) == "Cons(%head, %tail)"


def test_a_tuple_type_of_another_length_does_not_fit() -> None:
    func = Function([p := var("p", TupleType([TensorType()]))], p)
    assert complaints(Call(func, [Tuple([const(1.0), const(1.0)])])) == [
        "in `fn ...((...))`: argument 1, `(1.0, 1.0)`, does not fit: expected `(float32,)`, found `(float32, float32)`"
    ]
