"""Incremental inference, deep programs, and properties on random programs."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Op, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import FuncType, TupleType, Type, scalar_type
from apass.relay.type_inference.infer import ensure_typed, infer_expr, infer_function, infer_module
from tests.helpers.amounts import amount, levels

X = var("x", shape=(2, 3))
COND = var("c", "bool")
LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"
MUTUAL = """
def @even(%n: int32) { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
def @odd(%n) { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
def @main() { (@even(3), @odd(3)) }
"""


def untyped_nodes(expr: Expr) -> list[Expr]:
    """Return the nodes without a type, except operators and global variables."""
    nodes = (node for node in post_order(expr) if not isinstance(node, Op | GlobalVar))
    return [node for node in nodes if (isinstance(node, Var) and node.type_annotation is None) or _lacks_type(node)]


def _lacks_type(node: Expr) -> bool:
    try:
        return not isinstance(node.checked_type, Type)
    except ValueError:
        return True


def test_typed_module_is_returned_unchanged() -> None:
    typed = infer_module(read_module(MUTUAL))
    assert infer_module(typed) is typed


def test_only_changed_functions_are_inferred() -> None:
    typed = infer_module(read_module(MUTUAL))
    changed = typed.with_functions({"main": Function([], Call(typed.get_global_var("even"), [const(5)]))})
    again = infer_module(changed)
    assert [again[name] is typed[name] for name in ("even", "odd", "main")] == [True, True, False]
    assert str(again["main"].checked_type) == "fn () -> bool"


HIGHER = """
def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
def @next(%x: int32) -> int32 { add(%x, 1) }
def @main() -> int32 { add(@twice(@next, 1), @twice(fn (%y: int32) { @next(%y) }, 2)) }
"""


def test_typed_higher_order_functions_are_returned_unchanged() -> None:
    typed = infer_module(read_module(HIGHER))
    assert infer_module(typed) is typed


@pytest.mark.parametrize(
    "other",
    [
        "def @next(%x: float32) -> float32 { add(%x, 1f) }",
        "def @next(%x: int32, %y: int32) -> int32 { %x }",
        "def @next(%x: int32) -> float32 { 1f }",
    ],
)
def test_changed_callee_makes_typed_call_invalid(other: str) -> None:
    typed = infer_module(read_module(HIGHER))
    with pytest.raises(TypeInferenceError, match=r"in `@next\(%y\)`|argument 1, `@next`"):
        infer_module(typed.with_functions({"next": read_module(other)["next"]}))


def test_replacement_of_same_type_keeps_other_functions() -> None:
    typed = infer_module(read_module(HIGHER))
    changed = infer_module(
        typed.with_functions({"next": read_module("def @next(%x: int32) { multiply(%x, 2) }")["next"]})
    )
    assert [changed[name] is typed[name] for name in ("twice", "main")] == [True, True]


def test_removed_data_type_makes_typed_module_invalid() -> None:
    typed = infer_module(read_module(LIST + "def @main() { Nil() }"))
    with pytest.raises(TypeInferenceError, match="the data type `List` is not defined in the module"):
        infer_module(IRModule(typed.functions))


def test_changed_callee_type_invalidates_typed_function() -> None:
    typed = infer_module(read_module("def @f(%x: int32) { %x }\ndef @main() { let %y = @f(1); 1f }"))
    mod = typed.with_functions({"f": Function([x := var("x", "int32")], Tuple([x]))})
    with pytest.raises(TypeError, match=r"expected `int32`, found `\(int32,\)`"):
        infer_module(mod)
    assert (
        str(infer_module(read_module(str(mod).replace("%y: int32", "%y")))["f"].checked_type)
        == "fn (int32) -> (int32,)"
    )


def test_ensure_typed_returns_typed_function() -> None:
    typed = infer_function(Function([X], add(X, X)), IRModule())
    assert ensure_typed(typed, IRModule()) is typed
    assert ensure_typed(Function([X], add(X, X)), IRModule()).checked_type == typed.checked_type


def test_infer_function_infers_callees() -> None:
    mod = read_module(MUTUAL)
    assert str(infer_function(mod["main"], mod).checked_type) == "fn () -> (bool, bool)"
    assert infer_function(mod["odd"], mod).params[0].checked_type == scalar_type("int32")


def test_typed_subexpression_is_kept() -> None:
    inner = infer_expr(add(X, X))
    program = infer_expr(multiply(inner, inner))
    assert isinstance(program, Call)
    assert program.args == (inner, inner)


def test_shared_expression_stays_shared() -> None:
    shared = add(X, X)
    program = infer_expr(multiply(shared, shared))
    assert isinstance(program, Call)
    assert program.args[0] is program.args[1]


CHAIN = levels(200_000)
LETS = levels(50_000)


def test_deep_calls_are_typed() -> None:
    expr: Expr = X
    for _ in range(CHAIN):
        expr = add(expr, X)
    assert infer_expr(expr).checked_type == X.checked_type


def test_deep_lets_are_typed() -> None:
    variables = [var(f"v{index}") for index in range(LETS)]
    expr: Expr = variables[-1]
    for previous, variable in zip([X, *variables][:LETS][::-1], variables[::-1], strict=True):
        expr = Let(variable, add(previous, X), expr)
    assert infer_expr(expr).checked_type == X.checked_type


def test_deep_scopes_and_types_are_typed() -> None:
    tuples: Expr = X
    functions: Expr = X
    branches: Expr = X
    for _ in range(levels(20_000)):
        tuples, functions, branches = Tuple([tuples]), Function([], functions), If(COND, branches, X)
    assert type(infer_expr(tuples).checked_type) is TupleType
    assert type(infer_expr(functions).checked_type) is FuncType
    assert infer_expr(branches).checked_type == X.checked_type


def test_long_chain_of_unknown_types_is_typed() -> None:
    y, f = var("y"), var("f")
    expr: Expr = y
    for _ in range(levels(20_000)):
        expr = Tuple([add(y, expr)])[0]
    assert infer_expr(Let(f, Function([y], expr), Call(f, [X]))).checked_type == X.checked_type


@pytest.mark.slow
def test_long_chain_of_global_functions_is_typed() -> None:
    functions: dict[GlobalVar, Expr] = {GlobalVar("f0"): Function([], const(1))}
    for index in range(1, 5_000):
        functions[GlobalVar(f"f{index}")] = Function([], Call(GlobalVar(f"f{index - 1}"), []))
    mod = infer_module(IRModule(dict(reversed(functions.items()))))
    assert mod["f4999"].ret_type == scalar_type("int32")


@given(programs())
def test_every_node_of_random_program_is_typed(program: Program) -> None:
    mod, _ = program
    typed = infer_module(mod)
    assert [node for gvar in typed.get_global_vars() for node in untyped_nodes(typed[gvar])] == []
    assert [typed[gvar].ret_type is not None for gvar in typed.get_global_vars()] == [True] * len(typed)


@pytest.mark.slow
@given(programs(refs=True))
def test_inference_is_stable(program: Program) -> None:
    typed = infer_module(program[0])
    assert infer_module(typed) is typed
    assert infer_module(typed, trust=False) is typed
    stripped = read_module(str(typed)) if "meta" not in str(typed) else typed
    assert structural_equal(infer_module(stripped), typed)


@given(programs(), st.integers(0, 99))
def test_function_order_does_not_matter(program: Program, seed: int) -> None:
    mod, _ = program
    functions = list(mod.functions.items())
    random.Random(seed).shuffle(functions)
    assert structural_equal(infer_module(IRModule(dict(functions))), infer_module(mod))


@settings(max_examples=amount(50))
@given(programs())
def test_infer_function_agrees_with_infer_module(program: Program) -> None:
    mod, _ = program
    typed = infer_module(mod)
    assert all(structural_equal(infer_function(mod[gvar], mod), typed[gvar]) for gvar in mod.get_global_vars())


def test_checked_module_is_not_visited_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mod = infer_module(IRModule({"main": Function([X], add(X, X))}))
    assert mod.is_typed
    with monkeypatch.context() as patch:
        patch.setattr("apass.relay.type_inference.infer.Inferencer", None)
        assert infer_module(mod) is mod
    assert not mod.copy().is_typed
    assert not mod.without_functions(["main"]).is_typed


def test_changed_module_is_checked_again() -> None:
    callee = GlobalVar("callee")
    functions: dict[str, Expr] = {"main": Function([X], Call(callee, [X])), "callee": Function([X], add(X, X))}
    mod = infer_module(IRModule(functions))
    y = var("y", shape=(5,))
    mod[callee] = Function([y], add(y, y))
    assert not mod.is_typed
    with pytest.raises(TypeInferenceError, match="main"):
        infer_module(mod)
    mod[callee] = Function([X], multiply(X, X))
    assert infer_module(mod)["main"].ret_type == X.type_annotation
