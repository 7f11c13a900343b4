"""Variables come in the order in which a program is read: what binds them before what they are bound in."""

from apass.relay.adt import Clause, Match, PatternTuple, PatternVar
from apass.relay.expr import Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.variables import all_vars, bound_vars, free_vars

A, B, C, D, FREE = (Var(name) for name in ("a", "b", "c", "d", "free"))


def test_bound_variables_come_outermost_first() -> None:
    inner = Function([D], Tuple([D, FREE]))
    func = Function([A, B], Let(C, A, inner))
    assert bound_vars(func) == [A, B, C, D]
    assert all_vars(func) == [A, B, C, D, FREE]
    assert free_vars(func) == [FREE]


def test_the_variables_of_patterns_come_where_their_clause_stands() -> None:
    match = Match(FREE, [Clause(PatternTuple([PatternVar(B), PatternVar(A)]), Let(C, A, B)), Clause(PatternVar(D), D)])
    assert bound_vars(match) == [B, A, C, D]
    assert free_vars(match) == [FREE]
