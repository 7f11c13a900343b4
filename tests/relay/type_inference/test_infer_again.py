"""Inference of what is typed already, of programs of any depth, and its laws on random programs."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Op, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.structural.equality import structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.ty import FuncType, TupleType, Type, scalar_type
from apass.relay.type_inference.infer import ensure_typed, infer_expr, infer_function, infer_module
from tests.relay.programs import Program, programs

X = var("x", shape=(2, 3))
COND = var("c", "bool")
LIST = "type List[A] { Cons(A, List[A]), Nil, }\n"
MUTUAL = """
def @even(%n: int32) { if (equal(%n, 0)) { True } else { @odd(subtract(%n, 1)) } }
def @odd(%n) { if (equal(%n, 0)) { False } else { @even(subtract(%n, 1)) } }
def @main() { (@even(3), @odd(3)) }
"""


def untyped_nodes(expr: Expr) -> list[Expr]:
    """Return the nodes that should have a type and have none; operators and global variables have none of their own."""
    nodes = (one for one in post_order(expr) if not isinstance(one, Op | GlobalVar))
    return [one for one in nodes if (isinstance(one, Var) and one.type_annotation is None) or _lacks_type(one)]


def _lacks_type(node: Expr) -> bool:
    try:
        return not isinstance(node.checked_type, Type)
    except ValueError:
        return True


def test_a_typed_module_comes_back_as_it_is() -> None:
    typed = infer_module(read_module(MUTUAL))
    assert infer_module(typed) is typed


def test_only_functions_that_changed_are_typed_anew() -> None:
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


def test_functions_that_use_functions_as_values_come_back_as_they_are() -> None:
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
def test_a_call_that_no_longer_fits_the_function_is_found_in_a_typed_module(other: str) -> None:
    typed = infer_module(read_module(HIGHER))
    with pytest.raises(TypeInferenceError, match=r"in `@next\(%y\)`|argument 1, `@next`"):
        infer_module(typed.with_functions({"next": read_module(other)["next"]}))


def test_a_function_that_was_replaced_by_one_of_the_same_type_changes_nothing_else() -> None:
    typed = infer_module(read_module(HIGHER))
    changed = infer_module(
        typed.with_functions({"next": read_module("def @next(%x: int32) { multiply(%x, 2) }")["next"]})
    )
    assert [changed[name] is typed[name] for name in ("twice", "main")] == [True, True]


def test_a_data_type_that_is_gone_is_missed_in_a_typed_module() -> None:
    typed = infer_module(read_module(LIST + "def @main() { Nil() }"))
    with pytest.raises(TypeInferenceError, match="the data type `List` is not defined in the module"):
        infer_module(IRModule(typed.functions))


def test_a_typed_function_is_typed_anew_if_what_it_calls_is_of_another_type_now() -> None:
    typed = infer_module(read_module("def @f(%x: int32) { %x }\ndef @main() { let %y = @f(1); 1f }"))
    mod = typed.with_functions({"f": Function([x := var("x", "int32")], Tuple([x]))})
    with pytest.raises(TypeError, match=r"expected `int32`, found `\(int32,\)`"):
        infer_module(mod)
    assert (
        str(infer_module(read_module(str(mod).replace("%y: int32", "%y")))["f"].checked_type)
        == "fn (int32) -> (int32,)"
    )


def test_a_function_that_is_typed_needs_no_more() -> None:
    typed = infer_function(Function([X], add(X, X)), IRModule())
    assert ensure_typed(typed, IRModule()) is typed
    assert ensure_typed(Function([X], add(X, X)), IRModule()).checked_type == typed.checked_type


def test_one_function_is_typed_with_the_functions_that_it_calls() -> None:
    mod = read_module(MUTUAL)
    assert str(infer_function(mod["main"], mod).checked_type) == "fn () -> (bool, bool)"
    assert infer_function(mod["odd"], mod).params[0].checked_type == scalar_type("int32")


def test_what_is_typed_below_is_taken_at_its_word() -> None:
    inner = infer_expr(add(X, X))
    program = infer_expr(multiply(inner, inner))
    assert isinstance(program, Call)
    assert program.args == (inner, inner)


def test_shared_expressions_stay_shared() -> None:
    shared = add(X, X)
    program = infer_expr(multiply(shared, shared))
    assert isinstance(program, Call)
    assert program.args[0] is program.args[1]


CHAIN = 1_000_000
LETS = 200_000


def test_a_chain_of_a_million_calls_has_a_type() -> None:
    expr: Expr = X
    for _ in range(CHAIN):
        expr = add(expr, X)
    assert infer_expr(expr).checked_type == X.checked_type


def test_lets_two_hundred_thousand_deep_have_types() -> None:
    variables = [var(f"v{place}") for place in range(LETS)]
    expr: Expr = variables[-1]
    for before, one in zip([X, *variables][:LETS][::-1], variables[::-1], strict=True):
        expr = Let(one, add(before, X), expr)
    assert infer_expr(expr).checked_type == X.checked_type


def test_nested_scopes_and_nested_types_have_types() -> None:
    tuples: Expr = X
    functions: Expr = X
    branches: Expr = X
    for _ in range(20_000):
        tuples, functions, branches = Tuple([tuples]), Function([], functions), If(COND, branches, X)
    assert type(infer_expr(tuples).checked_type) is TupleType
    assert type(infer_expr(functions).checked_type) is FuncType
    assert infer_expr(branches).checked_type == X.checked_type


def test_a_chain_whose_types_are_known_only_at_its_end_has_types() -> None:
    y, f = var("y"), var("f")
    expr: Expr = y
    for _ in range(20_000):
        expr = Tuple([add(y, expr)])[0]
    assert infer_expr(Let(f, Function([y], expr), Call(f, [X]))).checked_type == X.checked_type


def test_a_chain_of_global_functions_has_types() -> None:
    functions: dict[GlobalVar, Expr] = {GlobalVar("f0"): Function([], const(1))}
    for place in range(1, 5_000):
        functions[GlobalVar(f"f{place}")] = Function([], Call(GlobalVar(f"f{place - 1}"), []))
    mod = infer_module(IRModule(dict(reversed(functions.items()))))
    assert mod["f4999"].ret_type == scalar_type("int32")


@given(programs())
def test_every_node_of_a_random_program_gets_a_type(program: Program) -> None:
    mod, _ = program
    typed = infer_module(mod)
    assert [node for gvar in typed.get_global_vars() for node in untyped_nodes(typed[gvar])] == []
    assert [typed[gvar].ret_type is not None for gvar in typed.get_global_vars()] == [True] * len(typed)


@given(programs(refs=True))
def test_inference_is_stable(program: Program) -> None:
    typed = infer_module(program[0])
    assert infer_module(typed) is typed
    assert infer_module(typed, trust=False) is typed
    stripped = read_module(str(typed)) if "meta" not in str(typed) else typed
    assert structural_equal(infer_module(stripped), typed)


@given(programs(), st.integers(0, 99))
def test_the_order_of_the_functions_has_no_say(program: Program, seed: int) -> None:
    mod, _ = program
    functions = list(mod.functions.items())
    random.Random(seed).shuffle(functions)
    assert structural_equal(infer_module(IRModule(dict(functions))), infer_module(mod))


@settings(max_examples=50)
@given(programs())
def test_one_function_is_typed_as_with_its_module(program: Program) -> None:
    mod, _ = program
    typed = infer_module(mod)
    assert all(structural_equal(infer_function(mod[gvar], mod), typed[gvar]) for gvar in mod.get_global_vars())
