"""Copies with fresh variables."""

from apass.relay.adt import Clause, Constructor, Match, PatternConstructor, PatternVar
from apass.relay.analysis.well_formed import well_formed
from apass.relay.expr import Call, Expr, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.variables import bound_vars, free_vars
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.rewrite.renaming import copied, renewed, with_unique_binders
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import GlobalTypeVar
from tests.helpers.relay.evaluation import plain

X, Y, Z, F = (var(name) for name in "xyzf")
BOX = Constructor("Box", [], GlobalTypeVar("Boxed"))


def test_renewed_replaces_every_bound_variable() -> None:
    expr = Let(F, Function([X], add(X, Z)), Match(Call(F, [Z]), [Clause(PatternVar(Y), Y)]))
    new = renewed(expr)
    assert structural_equal(new, expr)
    assert (set(bound_vars(new)) & set(bound_vars(expr)), free_vars(new)) == (set(), [Z])


def test_renewed_shares_nodes_without_bound_variables() -> None:
    shared = add(Z, Z)
    new = renewed(Let(X, const(1.0), Tuple([shared, X])), {})
    assert isinstance(new, Let)
    assert new.body.children[0] is shared


def test_renewed_replaces_other_variables_by_expressions() -> None:
    assert structural_equal(renewed(Let(X, Y, add(X, Y)), {Y: const(1.0)}), Let(X, const(1.0), add(X, const(1.0))))


def test_copied_shares_no_calls_or_cell_operations() -> None:
    for expr in (RefCreate(const(1.0)), RefRead(Z), RefWrite(Z, const(1.0)), Call(Z, [])):
        assert copied(expr) is not expr
        assert structural_equal(copied(expr), expr)
        assert renewed(expr) is expr


def test_program_without_repeated_binders_is_same_object() -> None:
    expr = Let(X, const(1.0), Function([Y], add(X, Y)))
    assert with_unique_binders(expr) is expr


def box(value: Expr) -> Expr:
    return Call(BOX, [value])


def test_outermost_binder_keeps_its_variable() -> None:
    binding = Let(X, add(X, const(10.0)), add(X, const(1.0)))
    match = Match(box(X), [Clause(PatternConstructor(BOX, [PatternVar(X)]), add(X, const(2.0)))])
    func = Function([X], Tuple([X, binding, match, Call(Function([X], binding), [const(5.0)])]))
    unique = with_unique_binders(func)
    assert isinstance(unique, Function)
    assert unique.params == (X,)
    assert (well_formed(func), well_formed(unique)) == (False, True)
    assert plain(evaluate(unique, 3)) == (3.0, 14.0, 5.0, 16.0)


def test_clauses_of_match_get_different_variables() -> None:
    clauses = [Clause(PatternConstructor(BOX, [PatternVar(X)]), X), Clause(PatternVar(X), box(X))]
    result = with_unique_binders(Tuple([Match(data, clauses) for data in (box(Z), Z)]))
    assert well_formed(result)
    assert plain(evaluate(result, 1)) == (1.0, ("Box", 1.0))


def test_recursive_function_refers_to_fresh_variable() -> None:
    recursive = Let(F, Function([X], Call(F, [X])), F)
    result = with_unique_binders(Let(F, const(1.0), Tuple([F, recursive])))
    assert isinstance(result, Let)
    assert structural_equal(result.body.children[1], recursive)
    assert free_vars(result) == []
