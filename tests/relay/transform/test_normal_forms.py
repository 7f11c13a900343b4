"""ToANormalForm, ToBasicBlockNormalForm and ToGraphNormalForm."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar
from apass.relay.analysis.queries import check_basic_block_normal_form
from apass.relay.errors import NormalFormError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import exp, negative, sqrt
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.normal_forms.anf import ToANormalForm, ToANormalFormExpr, to_a_normal_form
from apass.relay.transform.normal_forms.basic_block import ToBasicBlockNormalForm, to_basic_block_normal_form
from apass.relay.transform.normal_forms.graph import ToGraphNormalForm, to_graph_normal_form
from apass.relay.ty import GlobalTypeVar, TypeVar
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount

X, Y, CONDITION, CELL, F = (var(name) for name in ("x", "y", "condition", "cell", "f"))
A, B, C, D, E = (var(name) for name in "abcde")
BOX = Constructor("Box", [TypeVar("a")], GlobalTypeVar("Boxed"))


def lets(*parts: tuple[Expr, Expr] | Expr) -> Expr:
    """Return nested Lets for pairs of a variable and a value, around the last part."""
    *bindings, result = parts
    assert isinstance(result, Expr)
    for binding in reversed(bindings):
        assert isinstance(binding, tuple)
        variable, value = binding
        assert isinstance(variable, type(X))
        result = Let(variable, value, result)
    return result


def assert_becomes(actual: Expr, expected: Expr) -> None:
    """Assert that two expressions with the same free variables are equal."""
    free = [X, Y, CONDITION, CELL, F]
    assert structural_equal(Function(free, actual), Function(free, expected)), str(actual)


@pytest.mark.parametrize(
    ("pass_", "info"),
    [
        (ToANormalForm(), apass.PassInfo(1, "ToANormalForm", ())),
        (ToBasicBlockNormalForm(), apass.PassInfo(1, "ToBasicBlockNormalForm", ())),
        (ToGraphNormalForm(), apass.PassInfo(1, "ToGraphNormalForm", ())),
    ],
)
def test_levels_and_requirements_match_tvm(pass_: apass.Pass[IRModule], info: apass.PassInfo) -> None:
    assert pass_.info == info


def test_anf_binds_values_in_evaluation_order() -> None:
    result = to_a_normal_form(add(exp(X), TupleGetItem(Tuple([Y, const(1.0)]), 0)))
    one = const(1.0)
    expected = lets((A, exp(X)), (B, one), (C, Tuple([Y, B])), (D, TupleGetItem(C, 0)), (E, add(A, D)), E)
    assert_becomes(result, expected)


def test_anf_binds_shared_value_once() -> None:
    shared = exp(X)
    assert_becomes(to_a_normal_form(add(shared, shared)), lets((A, exp(X)), (B, add(A, A)), B))


def test_anf_keeps_atoms_and_existing_lets() -> None:
    assert to_a_normal_form(X) is X
    body = lets((A, X), (B, exp(A)), Call(GlobalVar("f"), [B]))
    assert_becomes(to_a_normal_form(body), lets((A, X), (B, exp(A)), (C, Call(GlobalVar("f"), [B])), C))


def test_anf_uses_second_variable_of_bound_value() -> None:
    shared = exp(X)
    body = lets((A, negative(shared)), (B, shared), Tuple([B, shared]))
    once = to_a_normal_form(body)
    assert_becomes(once, lets((C, exp(X)), (A, negative(C)), (B, C), (D, Tuple([B, B])), D))
    assert to_a_normal_form(once) is once
    branches = If(CONDITION, lets((B, shared), Tuple([B, shared])), shared)
    once = to_a_normal_form(Tuple([shared, branches]))
    branches = If(CONDITION, lets((B, C), (D, Tuple([B, B])), D), C)
    assert_becomes(once, lets((C, exp(X)), (A, branches), (E, Tuple([C, A])), E))
    assert to_a_normal_form(once) is once


def test_anf_moves_let_out_of_let_value() -> None:
    inner = lets((A, exp(X)), negative(A))
    assert_becomes(to_a_normal_form(lets((B, inner), B)), lets((A, exp(X)), (B, negative(A)), B))


def test_anf_binds_values_in_their_scope() -> None:
    shared, local = exp(X), negative(X)
    result = to_a_normal_form(If(CONDITION, Tuple([shared, local, local]), shared))
    branch = lets((B, negative(X)), (C, Tuple([A, B, B])), C)
    assert_becomes(result, lets((A, exp(X)), (D, If(CONDITION, branch, A)), D))


def test_anf_binds_values_within_clause() -> None:
    pattern = PatternConstructor(BOX, [PatternVar(A)])
    result = to_a_normal_form(Match(X, [Clause(pattern, exp(A)), Clause(PatternVar(B), B)]))
    clauses = [Clause(pattern, lets((C, exp(A)), C)), Clause(PatternVar(B), B)]
    assert_becomes(result, lets((D, Match(X, clauses)), D))


def test_anf_keeps_variable_of_recursive_function() -> None:
    result = to_a_normal_form(Let(F, Function([A], Call(F, [exp(A)])), Call(F, [X])))
    recursive = Function([A], lets((B, exp(A)), (C, Call(F, [B])), C))
    assert_becomes(result, lets((F, recursive), (D, Call(F, [X])), D))


def test_anf_leaves_primitive_function_unchanged() -> None:
    func = Function([A], exp(negative(A)), attrs={"Primitive": 1})
    assert_becomes(to_a_normal_form(Call(func, [X])), lets((B, func), (C, Call(B, [X])), C))


def test_anf_keeps_order_of_reads_and_writes() -> None:
    read, write = RefRead(CELL), RefWrite(CELL, X)
    result = to_a_normal_form(Tuple([read, lets((A, write), RefRead(CELL)), read]))
    expected = lets((B, RefRead(CELL)), (A, RefWrite(CELL, X)), (C, RefRead(CELL)), (D, Tuple([B, C, B])), D)
    assert_becomes(result, expected)


def test_anf_converts_body_or_binds_function() -> None:
    func = Function([A], exp(A))
    converted = Function([A], lets((B, exp(A)), B))
    assert structural_equal(to_a_normal_form(func), converted)
    assert structural_equal(ToANormalFormExpr(func), lets((C, converted), C))


@pytest.mark.parametrize("pass_", [ToANormalForm(), ToBasicBlockNormalForm()])
def test_external_function_stays_unchanged(pass_: apass.Pass[IRModule]) -> None:
    shared = exp(exp(X))
    mod = IRModule.from_expr(Function([X, CONDITION], If(CONDITION, shared, negative(shared)), attrs={"Compiler": "c"}))
    assert apass.run(pass_, mod) is mod


def test_basic_blocks_bind_value_used_by_several_blocks() -> None:
    shared = exp(negative(X))
    before = If(CONDITION, add(shared, X), multiply(shared, shared))
    with pytest.raises(NormalFormError, match=r"several blocks use <relay.Call of <relay.Op exp>>; bind it"):
        check_basic_block_normal_form(before)
    after = to_basic_block_normal_form(before)
    assert_becomes(after, lets((A, exp(negative(X))), If(CONDITION, add(A, X), multiply(A, A))))
    assert check_basic_block_normal_form(after)


def test_basic_blocks_leave_value_used_by_one_block() -> None:
    inner = exp(X)
    expr = If(CONDITION, lets((A, add(inner, inner)), multiply(A, inner)), negative(negative(Y)))
    assert check_basic_block_normal_form(expr)
    assert to_basic_block_normal_form(expr) is expr


def test_basic_blocks_do_not_move_let() -> None:
    expr = add(lets((A, exp(X)), negative(A)), X)
    assert to_basic_block_normal_form(expr) is expr


def test_basic_blocks_bind_value_shared_with_function() -> None:
    shared = exp(X)
    result = to_basic_block_normal_form(Call(Function([A], add(A, shared)), [shared]))
    assert_becomes(result, lets((B, exp(X)), Call(Function([A], add(A, B)), [B])))


def test_basic_blocks_do_not_move_read_before_write() -> None:
    read = RefRead(CELL)
    before = Tuple([lets((A, RefWrite(CELL, X)), If(CONDITION, read, X)), read])
    result = to_basic_block_normal_form(before)
    assert_becomes(result, lets((A, RefWrite(CELL, X)), (B, RefRead(CELL)), Tuple([If(CONDITION, B, X), B])))


def test_basic_blocks_keep_variable_of_variable() -> None:
    body = lets((A, X), A)
    assert to_basic_block_normal_form(body) is body
    shared = exp(X)
    result = to_basic_block_normal_form(lets((A, X), If(CONDITION, add(shared, A), shared)))
    assert_becomes(result, lets((A, X), (B, exp(A)), If(CONDITION, add(B, A), B)))


@pytest.mark.parametrize("convert", [to_basic_block_normal_form, to_a_normal_form])
def test_normal_forms_use_variable_of_variable_within_let(convert: Callable[[Expr], Expr]) -> None:
    assert_becomes(convert(lets((A, X), X)), lets((A, X), A))
    assert_becomes(convert(lets((A, X), (B, X), X)), lets((A, X), (B, A), B))
    chain = lets((A, X), (B, A), (C, Tuple([X, A])), C)
    assert_becomes(convert(chain), lets((A, X), (B, A), (C, Tuple([B, B])), C))
    branches = If(CONDITION, lets((A, X), (B, exp(X)), B), X)
    assert_becomes(convert(branches), convert(If(CONDITION, lets((A, X), (B, exp(A)), B), X)))


def test_basic_blocks_keep_variable_outside_let_of_another() -> None:
    shared = exp(X)
    after = to_basic_block_normal_form(Tuple([shared, lets((A, X), add(shared, X)), X]))
    assert_becomes(after, Tuple([shared, lets((A, X), add(shared, A)), X]))


@pytest.mark.parametrize("pass_", [ToBasicBlockNormalForm(), ToANormalForm()])
def test_converted_function_has_no_types(pass_: apass.Pass[IRModule]) -> None:
    x, c = var("x", shape=(2,)), var("c", shape=(), dtype="bool")
    shared = exp(add(x, x))
    kernel = Function([x], sqrt(x), attrs={"Primitive": 1})
    expr = If(c, Call(kernel, [shared]), negative(shared))
    mod = infer_module(IRModule.from_expr(Function([x, c], expr)))
    after = apass.run(pass_, mod)["main"]
    assert isinstance(after.body, Let)
    typed = [node for node in post_order(after) if node.children and node.checked_type_ is not None]
    # A kernel is left as it is.
    assert [node.attrs.get("Primitive") for node in typed if isinstance(node, Function)] == [1]
    assert [op_name(node) for node in typed if not isinstance(node, Function)] == ["sqrt"]
    in_form = infer_module(apass.run(pass_, mod))
    assert apass.run(pass_, in_form) is in_form


@pytest.mark.parametrize(
    ("shared", "name"),
    [
        (X, "Var %x"),
        (const(1.0), "Constant float32"),
        (GlobalVar("g"), "GlobalVar @g"),
        (BOX, "Constructor Box"),
    ],
    ids=["variable", "constant", "global", "constructor"],
)
def test_value_in_both_branches_breaks_normal_form(shared: Expr, name: str) -> None:
    with pytest.raises(NormalFormError, match=f"several blocks use <relay.{name}"):
        check_basic_block_normal_form(If(CONDITION, Tuple([shared]), shared))
    assert check_basic_block_normal_form(Tuple([shared, If(CONDITION, Tuple([shared]), shared)]))


def test_shared_operators_and_bound_variables_keep_normal_form() -> None:
    both = If(CONDITION, exp(A), exp(A))
    pattern = PatternConstructor(BOX, [PatternVar(A)])
    for expr in (lets((A, X), both), Function([A], both), Match(X, [Clause(pattern, both)])):
        assert check_basic_block_normal_form(expr)


def test_constant_of_two_kernels_breaks_normal_form() -> None:
    one = const(1.0)
    kernels = [Function([param], add(param, one), attrs={"Primitive": 1}) for param in (A, B)]
    with pytest.raises(NormalFormError, match=r"several blocks use <relay.Constant"):
        check_basic_block_normal_form(Tuple([Call(kernel, [X]) for kernel in kernels]))


def shared_by_blocks(func: Expr) -> str:
    """Return the message of the check, empty if a function is in normal form."""
    try:
        check_basic_block_normal_form(func)
    except NormalFormError as error:
        return str(error)
    return ""


@settings(max_examples=amount(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_basic_blocks_share_no_values(program: Program) -> None:
    after = apass.run(ToBasicBlockNormalForm(), program[0])
    messages = [shared_by_blocks(after[gvar]) for gvar in after.get_global_vars()]
    assert all("<relay.GlobalVar" in message or "<relay.Constructor" in message for message in filter(None, messages))


def graph(body: Expr) -> Expr:
    return to_graph_normal_form(Function([X, Y, CELL], body)).body


def test_graph_normal_form_shares_values_without_lets() -> None:
    result = graph(lets((A, exp(X)), (B, Tuple([A, A])), (C, negative(X)), B))
    assert structural_equal(result, Tuple([result.children[0], result.children[0]]))
    assert_becomes(result.children[0], exp(X))


def test_graph_normal_form_keeps_let_of_recursive_function() -> None:
    recursive = Function([A], Call(F, [A]))
    result = graph(lets((F, recursive), Tuple([F, F])))
    assert_becomes(result.children[0], lets((F, recursive), F))
    assert result.children[0] is result.children[1]


@pytest.mark.parametrize("value", [RefCreate(X), RefRead(CELL), RefWrite(CELL, X), Call(X, []), Tuple([RefRead(CELL)])])
def test_graph_normal_form_keeps_let_with_effects(value: Expr) -> None:
    body = Let(A, value, Tuple([A, RefWrite(CELL, Y), A]))
    assert graph(body) is body


def test_graph_normal_form_undoes_anf() -> None:
    shared = exp(X)
    expr = If(CONDITION, add(shared, Y), multiply(shared, shared))
    assert structural_equal(to_graph_normal_form(Function([X, Y, CONDITION], to_a_normal_form(expr))).body, expr)
