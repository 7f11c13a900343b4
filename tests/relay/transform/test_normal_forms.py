"""ToANormalForm, ToBasicBlockNormalForm and ToGraphNormalForm."""

import pytest

import apass
from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar
from apass.relay.analysis.queries import check_basic_block_normal_form
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import exp, negative
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.normal_forms.anf import ToANormalForm, ToANormalFormExpr, to_a_normal_form
from apass.relay.transform.normal_forms.basic_block import (
    ToBasicBlockNormalForm,
    to_basic_block_normal_form,
)
from apass.relay.transform.normal_forms.graph import ToGraphNormalForm, to_graph_normal_form
from apass.relay.ty import GlobalTypeVar, TypeVar

X, Y, CONDITION, CELL, F = (var(name) for name in ("x", "y", "condition", "cell", "f"))
A, B, C, D, E = (var(name) for name in "abcde")
BOX = Constructor("Box", [TypeVar("a")], GlobalTypeVar("Boxed"))


def lets(*parts: tuple[Expr, Expr] | Expr) -> Expr:
    """Return Lets of pairs of a variable and a value around the last part."""
    *bindings, result = parts
    assert isinstance(result, Expr)
    for one in reversed(bindings):
        assert isinstance(one, tuple)
        variable, value = one
        assert isinstance(variable, type(X))
        result = Let(variable, value, result)
    return result


def assert_becomes(made: Expr, expected: Expr) -> None:
    """Compare two expressions that have the same free variables."""
    free = [X, Y, CONDITION, CELL, F]
    assert structural_equal(Function(free, made), Function(free, expected)), str(made)


@pytest.mark.parametrize(
    ("pass_", "info"),
    [
        (ToANormalForm(), apass.PassInfo(1, "ToANormalForm", ())),
        (ToBasicBlockNormalForm(), apass.PassInfo(1, "ToBasicBlockNormalForm", ())),
        (ToGraphNormalForm(), apass.PassInfo(1, "ToGraphNormalForm", ())),
    ],
)
def test_levels_and_requirements_are_those_of_tvm(pass_: apass.Pass[IRModule], info: apass.PassInfo) -> None:
    assert pass_.info == info


def test_in_a_normal_form_every_value_has_a_variable_in_the_order_of_evaluation() -> None:
    made = to_a_normal_form(add(exp(X), TupleGetItem(Tuple([Y, const(1.0)]), 0)))
    one = const(1.0)
    expected = lets((A, exp(X)), (B, one), (C, Tuple([Y, B])), (D, TupleGetItem(C, 0)), (E, add(A, D)), E)
    assert_becomes(made, expected)


def test_what_is_shared_has_one_variable() -> None:
    shared = exp(X)
    assert_becomes(to_a_normal_form(add(shared, shared)), lets((A, exp(X)), (B, add(A, A)), B))


def test_atoms_have_none_and_a_let_keeps_its_own() -> None:
    assert to_a_normal_form(X) is X
    body = lets((A, X), (B, exp(A)), Call(GlobalVar("f"), [B]))
    assert_becomes(to_a_normal_form(body), lets((A, X), (B, exp(A)), (C, Call(GlobalVar("f"), [B])), C))


def test_a_let_in_a_value_comes_before_the_let_of_that_value() -> None:
    inner = lets((A, exp(X)), negative(A))
    assert_becomes(to_a_normal_form(lets((B, inner), B)), lets((A, exp(X)), (B, negative(A)), B))


def test_each_scope_has_the_bindings_that_are_its_own() -> None:
    shared, own = exp(X), negative(X)
    made = to_a_normal_form(If(CONDITION, Tuple([shared, own, own]), shared))
    branch = lets((B, negative(X)), (C, Tuple([A, B, B])), C)
    assert_becomes(made, lets((A, exp(X)), (D, If(CONDITION, branch, A)), D))


def test_a_clause_is_a_scope() -> None:
    pattern = PatternConstructor(BOX, [PatternVar(A)])
    made = to_a_normal_form(Match(X, [Clause(pattern, exp(A)), Clause(PatternVar(B), B)]))
    clauses = [Clause(pattern, lets((C, exp(A)), C)), Clause(PatternVar(B), B)]
    assert_becomes(made, lets((D, Match(X, clauses)), D))


def test_a_function_that_calls_itself_keeps_its_variable() -> None:
    made = to_a_normal_form(Let(F, Function([A], Call(F, [exp(A)])), Call(F, [X])))
    recursive = Function([A], lets((B, exp(A)), (C, Call(F, [B])), C))
    assert_becomes(made, lets((F, recursive), (D, Call(F, [X])), D))


def test_a_primitive_function_is_not_looked_into() -> None:
    func = Function([A], exp(negative(A)), attrs={"Primitive": 1})
    assert_becomes(to_a_normal_form(Call(func, [X])), lets((B, func), (C, Call(B, [X])), C))


def test_the_order_of_what_reads_and_writes_stays() -> None:
    read, write = RefRead(CELL), RefWrite(CELL, X)
    made = to_a_normal_form(Tuple([read, lets((A, write), RefRead(CELL)), read]))
    expected = lets((B, RefRead(CELL)), (A, RefWrite(CELL, X)), (C, RefRead(CELL)), (D, Tuple([B, C, B])), D)
    assert_becomes(made, expected)


def test_of_a_function_the_body_is_converted_unless_it_is_an_expression_as_any() -> None:
    func = Function([A], exp(A))
    converted = Function([A], lets((B, exp(A)), B))
    assert structural_equal(to_a_normal_form(func), converted)
    assert structural_equal(ToANormalFormExpr(func), lets((C, converted), C))


@pytest.mark.parametrize("pass_", [ToANormalForm(), ToBasicBlockNormalForm()])
def test_functions_for_other_compilers_stay_as_they_are(pass_: apass.Pass[IRModule]) -> None:
    shared = exp(exp(X))
    mod = IRModule.from_expr(Function([X, CONDITION], If(CONDITION, shared, negative(shared)), attrs={"Compiler": "c"}))
    assert apass.run(pass_, mod) is mod


def test_in_basic_block_normal_form_what_several_blocks_need_has_a_variable() -> None:
    shared = exp(negative(X))
    before = If(CONDITION, add(shared, X), multiply(shared, shared))
    assert not check_basic_block_normal_form(before)
    after = to_basic_block_normal_form(before)
    assert_becomes(after, lets((A, exp(negative(X))), If(CONDITION, add(A, X), multiply(A, A))))
    assert check_basic_block_normal_form(after)


def test_what_one_block_needs_has_none() -> None:
    inner = exp(X)
    expr = If(CONDITION, lets((A, add(inner, inner)), multiply(A, inner)), negative(negative(X)))
    assert check_basic_block_normal_form(expr)
    assert to_basic_block_normal_form(expr) is expr


def test_a_let_stays_where_it_is() -> None:
    expr = add(lets((A, exp(X)), negative(A)), X)
    assert to_basic_block_normal_form(expr) is expr


def test_what_a_function_and_its_surroundings_need_has_a_variable_around_both() -> None:
    shared = exp(X)
    made = to_basic_block_normal_form(Call(Function([A], add(A, shared)), [shared]))
    assert_becomes(made, lets((B, exp(X)), Call(Function([A], add(A, B)), [B])))


def test_what_reads_is_not_bound_before_a_let_that_writes() -> None:
    read = RefRead(CELL)
    before = Tuple([lets((A, RefWrite(CELL, X)), If(CONDITION, read, X)), read])
    made = to_basic_block_normal_form(before)
    assert_becomes(made, lets((A, RefWrite(CELL, X)), (B, RefRead(CELL)), Tuple([If(CONDITION, B, X), B])))


def graph(body: Expr) -> Expr:
    return to_graph_normal_form(Function([X, Y, CELL], body)).body


def test_in_graph_normal_form_values_stand_where_they_are_needed_and_are_shared() -> None:
    made = graph(lets((A, exp(X)), (B, Tuple([A, A])), (C, negative(X)), B))
    assert structural_equal(made, Tuple([made.children[0], made.children[0]]))
    assert_becomes(made.children[0], exp(X))


def test_a_recursive_function_keeps_a_let_around_its_variable() -> None:
    recursive = Function([A], Call(F, [A]))
    made = graph(lets((F, recursive), Tuple([F, F])))
    assert_becomes(made.children[0], lets((F, recursive), F))
    assert made.children[0] is made.children[1]


@pytest.mark.parametrize("value", [RefCreate(X), RefRead(CELL), RefWrite(CELL, X), Call(X, []), Tuple([RefRead(CELL)])])
def test_a_let_whose_place_matters_stays(value: Expr) -> None:
    body = Let(A, value, Tuple([A, RefWrite(CELL, Y), A]))
    assert graph(body) is body


def test_graph_normal_form_and_back() -> None:
    shared = exp(X)
    expr = If(CONDITION, add(shared, Y), multiply(shared, shared))
    assert structural_equal(to_graph_normal_form(Function([X, Y, CONDITION], to_a_normal_form(expr))).body, expr)
