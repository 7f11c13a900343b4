"""`well_formed` and `what_is_ill_formed`: the scoping errors of a program."""

import pytest
from hypothesis import given

from apass.relay.adt import Clause, Constructor, Match, PatternTuple, PatternVar
from apass.relay.analysis.well_formed import well_formed, what_is_ill_formed
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.testing.programs import Program, programs
from apass.relay.ty import FuncType, GlobalTypeVar, TupleType, TypeVar
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import levels

X, Y, F = var("x"), var("y"), var("f")
A = TypeVar("a")
SHARED = add(X, X)
FUNC = Function([X], SHARED)

WELL: dict[str, Expr] = {
    "a free variable": X,
    "the parameters of a function": Function([X, Y], add(X, Y)),
    "a shared function": Tuple([FUNC, Call(FUNC, [Y])]),
    "a recursive function": Let(F, Function([X], Call(F, [X])), Call(F, [Y])),
    "nested lets": Let(X, const(1), Let(Y, X, add(X, Y))),
    "a shared expression within its scope": Let(X, const(1), If(Y, SHARED, add(SHARED, SHARED))),
    "the variables of patterns": Match(Y, [Clause(PatternTuple([PatternVar(X), PatternVar(F)]), add(X, F))]),
    "a type parameter": Function([v := var("v", A)], Function([w := var("w", A)], Tuple([v, w])), A, [A]),
    "a type parameter of a type": Function([var("v", FuncType([A], A, [A]))], const(1)),
    "a type parameter shared by two functions": Tuple([Function([var("v", A)], X, None, [A]) for _ in range(2)]),
    "a free type variable": var("v", A),
}

ILL: dict[str, tuple[Expr, list[str]]] = {
    "two lets of one variable": (
        Let(X, const(1), Let(X, const(2), X)),
        ["%x is bound more than once"],
    ),
    "two lets of one variable, side by side": (
        Tuple([Let(X, const(1), X), Let(X, const(2), X)]),
        ["%x is bound more than once", "%x is used outside its scope"],
    ),
    "a repeated parameter": (Function([X, X], X), ["%x is bound more than once"]),
    "a let of a parameter": (Function([X], Let(X, const(1), X)), ["%x is bound more than once"]),
    "two functions that share a parameter": (
        Tuple([Function([X], const(1)), Function([X], const(1))]),
        ["%x is bound more than once"],
    ),
    "a clause that binds a variable twice": (
        Match(Y, [Clause(PatternTuple([PatternVar(X), PatternVar(X)]), X)]),
        ["%x is bound more than once"],
    ),
    "a variable outside its let": (
        add(Let(X, const(1), X), X),
        ["%x is used outside its scope"],
    ),
    "a variable outside its function": (
        Tuple([FUNC, X]),
        ["%x is used outside its scope"],
    ),
    "a variable in another clause": (
        Match(Y, [Clause(PatternVar(X), X), Clause(PatternVar(var("z")), X)]),
        ["%x is used outside its scope"],
    ),
    "a shared expression outside its scope": (
        add(Let(X, const(1), SHARED), SHARED),
        ["%x is used outside its scope"],
    ),
    "a type parameter outside its function": (
        Tuple([Function([var("v", A)], const(1), None, [A]), Function([var("w", A)], const(1))]),
        ["the type variable a is used where it is not bound"],
    ),
    "an unbound type variable in a result type": (
        Tuple([Function([], const(1), TupleType([A])), Function([], const(1), None, [A])]),
        ["the type variable a is used where it is not bound"],
    ),
    "an unbound type variable in type arguments": (
        Tuple([Call(F, [], None, [A]), Function([], const(1), None, [A])]),
        ["the type variable a is used where it is not bound"],
    ),
}


@pytest.mark.parametrize("expr", WELL.values(), ids=WELL)
def test_expression_is_well_formed(expr: Expr) -> None:
    assert (what_is_ill_formed(expr), well_formed(expr)) == ([], True)


@pytest.mark.parametrize(("expr", "faults"), ILL.values(), ids=ILL)
def test_expression_is_ill_formed(expr: Expr, faults: list[str]) -> None:
    assert (what_is_ill_formed(expr), well_formed(expr)) == (faults, False)


def test_function_of_module_has_no_free_variables() -> None:
    nil = Constructor("Nil", [], GlobalTypeVar("List"))
    body = Tuple([X, Call(GlobalVar("g"), []), Call(nil, []), Call(GlobalVar("main"), [])])
    mod = IRModule({GlobalVar("main"): Function([], body, A), GlobalVar("f"): Function([Y], Y)})
    assert what_is_ill_formed(mod) == [
        "in @main: %x is not bound",
        "in @main: the type variable a is used where it is not bound",
        "in @main: the module has no function @g",
        "in @main: the module has no data type List",
    ]
    assert well_formed(mod["f"])
    assert not well_formed(mod)


def test_functions_of_module_may_share_parameters() -> None:
    assert well_formed(IRModule({GlobalVar("f"): FUNC, GlobalVar("g"): FUNC}))


def test_well_formed_handles_deep_programs() -> None:
    variables = [Var(f"v{index}") for index in range(levels(50_000))]
    body: Expr = add(variables[0], variables[-1])
    for before, variable in zip([X, *variables][:-1][::-1], variables[::-1], strict=True):
        body = Let(variable, add(before, before), body)
    assert what_is_ill_formed(Function([X], body)) == []
    assert what_is_ill_formed(Tuple([variables[7], body])) == ["%v7 is used outside its scope"]


@pytest.mark.slow
@given(programs(refs=True))
def test_random_programs_stay_well_formed_after_inference(program: Program) -> None:
    mod, _ = program
    assert what_is_ill_formed(mod) == what_is_ill_formed(infer_module(mod)) == []
