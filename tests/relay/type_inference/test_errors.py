"""Type errors: messages name the expression, the expected and the found type."""

from collections.abc import Iterable

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar, TypeData
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import FuncType, GlobalTypeVar, Kind, TensorType, TupleType, TypeCall, TypeVar
from apass.relay.type_inference.errors import describe, describe_pattern
from apass.relay.type_inference.infer import infer_expr, infer_module

X, Y, COND = var("x", shape=(2, 3)), var("y", shape=(4, 3)), var("c", "bool")
LIST, ITEM = GlobalTypeVar("List"), TypeVar("A")
NIL = Constructor("Nil", [], LIST)
CONS = Constructor("Cons", [ITEM, TypeCall(LIST, [ITEM])], LIST)
LISTS = IRModule(type_definitions={LIST: TypeData(LIST, [ITEM], [CONS, NIL])})
CANNOT_INFER = "cannot infer the type of this expression; add a type annotation"


def message(program: Expr | IRModule, mod: IRModule | None = None) -> str:
    """Return the error message for an ill-typed program, without indentation."""
    with pytest.raises(TypeInferenceError) as caught:
        _ = infer_module(program) if isinstance(program, IRModule) else infer_expr(program, mod)
    return "\n".join(line.strip() for line in str(caught.value).split("\n"))


def error_lines(program: Expr | IRModule, mod: IRModule | None = None) -> list[str]:
    """Return the first line of each error."""
    return [line.removeprefix("error: ") for line in message(program, mod).split("\n") if line.startswith("error:")]


def test_all_errors_of_module_are_raised_together() -> None:
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
        "error: in `(...).2`: field 2 does not exist: the type `(Tensor[(2), float32], int32)` has 2 fields\n"
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


def test_error_in_built_program_has_no_location() -> None:
    assert message(add(X, Y)) == (
        "error: in `add(%x, %y)`: add: the shapes (2, 3) and (4, 3) cannot be broadcast: dimensions must be equal or 1"
    )


Z, F = var("z"), var("f")

PLAIN: Iterable[tuple[Expr, str]] = [
    (
        If(COND, X, Tuple([X])),
        (
            "in `if (%c) { %x } else { (...) }`: the branches have different types: "
            "expected `Tensor[(2, 3), float32]`, found `(Tensor[(2, 3), float32],)`"
        ),
    ),
    (X[0], "in `%x.0`: expected a tuple, found a value of type `Tensor[(2, 3), float32]`"),
    (
        TupleGetItem(Tuple([X]), -1),
        "in `(...).-1`: field -1 does not exist: the type `(Tensor[(2, 3), float32],)` has 1 fields",
    ),
    (
        Call(X, [Y]),
        "in `%x(%y)`: the callee must be a function; `%x` has type `Tensor[(2, 3), float32]`",
    ),
    (
        Call(Function([X], X), [X, X]),
        "in `fn ...(%x, %x)`: too many arguments to the function: expected 1, found 2",
    ),
    (Call(Function([X], X), []), "in `fn ...()`: too few arguments to the function: expected 1, found 0"),
    (
        Call(Function([X], X), [const(1)]),
        "in `fn ...(1)`: argument 1, `1`, has the wrong type: expected `Tensor[(2, 3), float32]`, found `int32`",
    ),
    (
        Call(Function([X], X), [X], None, [TensorType()]),
        "in `fn ...(%x)`: too many type arguments: expected at most 0, found 1",
    ),
    (
        Call(Op.get("add"), [X]),
        "in `add(%x)`: too few arguments to the operator add: expected 2 (lhs, rhs), found 1",
    ),
    (
        Call(Op.get("sum"), [X]),
        "in `sum(%x)`: the call has no attributes; sum requires ReduceAttrs, see Op.make_attrs",
    ),
    (
        Function([X], X, TensorType((2,))),
        (
            "in `fn (%x) { %x }`: the body `%x` does not have the result type: "
            "expected `Tensor[(2), float32]`, found `Tensor[(2, 3), float32]`"
        ),
    ),
    (
        Let(var("v", "int32"), X, X),
        (
            "in `let %v = %x; ...`: `%v` is bound to a value of the wrong type: "
            "expected `int32`, found `Tensor[(2, 3), float32]`"
        ),
    ),
    (
        RefWrite(RefCreate(X), const(1.0)),
        (
            "in `ref_write(ref(...), 1.0)`: cannot write `1.0` to the cell: "
            "expected `Tensor[(2, 3), float32]`, found `float32`"
        ),
    ),
    (RefRead(X), "in `ref_read(%x)`: `%x` is not a reference: expected `ref(?)`, found `Tensor[(2, 3), float32]`"),
    (GlobalVar("f"), "in `@f`: the module has no function @f"),
    (NIL, "in `Nil`: the data type `List` is not defined in the module"),
    (Function([Z], Z), f"in `%z`: {CANNOT_INFER}"),
    (Function([F], Call(F, [X])), f"in `%f(%x)`: {CANNOT_INFER}"),
    (Function([Z], add(add(Z, Z), X)), f"in `%z`: {CANNOT_INFER}"),
    (Let(Z, add(Z, X), Z), "in `let %z = add(...); ...`: `%z` is used before it is bound, or bound more than once"),
    (
        Function([v := var("v", FuncType([TypeCall(LIST, [])], TensorType()))], v),
        "in `%v`: the data type `List` is not defined; the module has: none",
    ),
    (
        Function([v := var("v", TypeVar("n", Kind.ShapeVar))], v),
        "in `%v`: `n` has kind ShapeVar, expected a type of kind Type",
    ),
]


@pytest.mark.parametrize(("program", "line"), PLAIN, ids=[line for _, line in PLAIN])
def test_error_names_expression_and_types(program: Expr, line: str) -> None:
    assert error_lines(program)[0] == line


def test_error_lists_each_conflicting_dimension() -> None:
    assert message(If(COND, X, var("z", shape=(5, 6)))).split("\n")[1] == (
        "dimension 0 conflicts: 2 does not match 5, dimension 1 conflicts: 3 does not match 6"
    )


def test_error_shows_conflict_of_nested_types() -> None:
    lhs, rhs = Tuple([COND, Tuple([X])]), Tuple([COND, Tuple([Function([X], X)])])
    assert message(If(COND, lhs, rhs)).split("\n")[1] == (
        "`Tensor[(2, 3), float32]` does not match `fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]`"
    )


def test_error_shows_conflicting_ranks() -> None:
    assert message(If(COND, X, var("z", shape=(5,)))).split("\n")[1] == (
        "`Tensor[(2, 3), float32]` has 2 dimensions, while `Tensor[(5), float32]` has 1"
    )


def test_self_application_raises() -> None:
    assert "a type cannot contain itself" in message(Function([F], Call(F, [F])))


def test_consequences_of_error_are_not_reported() -> None:
    wrong = add(X, Y)
    program = Tuple([add(wrong, wrong), Call(Function([X], X), [wrong]), wrong[0], If(COND, wrong, X)])
    assert len(error_lines(program)) == 1


def test_error_in_callee_is_not_reported_for_callers() -> None:
    source = "def @f(%x: int32) { add(%x, 1f) }\ndef @main(%y) { add(@f(%y), @f(2)) }"
    assert error_lines(read_module(source)) == [
        "in `add(%x, 1.0)`: add: the element types differ: int32 and float32; cast to one of them"
    ]


def test_misspelled_function_name_has_suggestion() -> None:
    assert error_lines(read_module("def @loss() { 1 }\ndef @main() { @los() }")) == [
        "in `@los`: the module has no function @los; did you mean 'loss'?"
    ]


def test_error_names_each_function() -> None:
    source = "def @f(%a) { if (True) { %a } else { @g(%a) } }\ndef @g(%b) { @f(%b) }\ndef @h(%e) { %e }"
    lines = [line for line in message(read_module(source)).split("\n") if line.startswith(("error", "= in"))]
    assert lines == [
        f"error: in `%a`: {CANNOT_INFER}",
        "= in function f",
        f"error: in `%e`: {CANNOT_INFER}",
        "= in function h",
    ]


def match_list(*clauses: Clause) -> Match:
    return Match(Call(CONS, [X, Call(NIL, [])]), clauses)


HEAD, TAIL = var("head"), var("tail")
WHOLE = PatternConstructor(CONS, [PatternVar(HEAD), PatternVar(TAIL)])


@pytest.mark.parametrize(
    ("match", "message"),
    [
        (
            match_list(Clause(PatternConstructor(NIL), X)),
            "the match does not handle the following cases: `Cons(_, _)`",
        ),
        (
            match_list(Clause(PatternConstructor(CONS, [PatternVar(HEAD)]), X)),
            "`Cons` takes 2 arguments, but `Cons(%head)` has 1",
        ),
        (
            match_list(Clause(WHOLE, HEAD), Clause(PatternConstructor(NIL), Y)),
            "the clauses have different types: expected `Tensor[(2, 3), float32]`, found `Tensor[(4, 3), float32]`",
        ),
        (
            Match(X, [Clause(PatternConstructor(NIL), X)]),
            "the pattern `Nil` does not match the value: expected `List[?]`, found `Tensor[(2, 3), float32]`",
        ),
        (
            match_list(Clause(PatternVar(var("v", "int32")), X)),
            "`%v` is bound to a value of the wrong type: expected `int32`, found `List[Tensor[(2, 3), float32]]`",
        ),
    ],
)
def test_invalid_match_raises(match: Match, message: str) -> None:
    assert error_lines(match, LISTS) == [f"in `{describe(match)}`: {message}"]


def test_other_exception_of_relation_propagates_with_note() -> None:
    class BrokenError(Exception):
        pass

    def relation(types: object, attrs: object) -> None:
        raise BrokenError

    op = Op(name="broken", arguments=("data",), num_inputs=1, relation=relation)
    with pytest.raises(BrokenError) as caught:
        infer_expr(Call(op, [X]))
    assert caught.value.__notes__ == [
        "raised by the type relation of <relay.Call of <relay.Op broken>> for the types Tensor[(2, 3), float32], ?"
    ]


def test_unknown_expression_class_raises() -> None:
    class Strange(Expr):
        __slots__ = ()

    with pytest.raises(TypeError, match=r"^cannot infer the type of <relay.Strange>: expected a Relay expression$"):
        infer_expr(Strange())


def test_large_types_are_abbreviated() -> None:
    lhs: Expr = const(1)
    rhs: Expr = const(1.0)
    for _ in range(2_000):
        lhs, rhs = Tuple([lhs]), Tuple([rhs])
    assert message(If(COND, lhs, rhs)).split("\n") == [
        (
            "error: in `if (%c) { (...) } else { (...) }`: the branches have different types: "
            "expected `<a large TupleType>`, found `<a large TupleType>`"
        ),
        "`int32` does not match `float32`: the element types differ",
    ]


def test_describe_returns_short_text() -> None:
    func = Function([X], X)
    described = [
        describe(expr)
        for expr in (
            X,
            GlobalVar("f"),
            Constant([1.0, 2.0]),
            Tuple([X]),
            Tuple([Let(Z, X, X), If(COND, X, X), func, match_list(), RefCreate(X), RefRead(X), RefWrite(X, X)]),
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


def test_describe_pattern_returns_text() -> None:
    assert describe_pattern(WHOLE) == "Cons(%head, %tail)"


def test_tuple_of_wrong_length_raises() -> None:
    func = Function([p := var("p", TupleType([TensorType()]))], p)
    assert error_lines(Call(func, [Tuple([const(1.0), const(1.0)])])) == [
        (
            "in `fn ...((...))`: argument 1, `(1.0, 1.0)`, has the wrong type: "
            "expected `(float32,)`, found `(float32, float32)`"
        ),
    ]
