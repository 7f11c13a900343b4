"""Variables are returned in program order: a binding before its scope."""

from apass.relay.adt import Clause, Constructor, Match, PatternTuple, PatternVar, TypeData
from apass.relay.expr import Call, Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.variables import all_type_vars, all_vars, bound_type_vars, bound_vars, free_type_vars, free_vars
from apass.relay.ty import GlobalTypeVar, TypeVar

A, B, C, D, FREE = (Var(name) for name in ("a", "b", "c", "d", "free"))


def test_bound_variables_are_ordered_outermost_first() -> None:
    inner = Function([D], Tuple([D, FREE]))
    func = Function([A, B], Let(C, A, inner))
    assert bound_vars(func) == [A, B, C, D]
    assert all_vars(func) == [A, B, C, D, FREE]
    assert free_vars(func) == [FREE]


def test_pattern_variables_are_ordered_by_clause() -> None:
    match = Match(FREE, [Clause(PatternTuple([PatternVar(B), PatternVar(A)]), Let(C, A, B)), Clause(PatternVar(D), D)])
    assert bound_vars(match) == [B, A, C, D]
    assert free_vars(match) == [FREE]


def test_data_type_binds_type_variables_of_constructors() -> None:
    a = TypeVar("A")
    box = GlobalTypeVar("Box")
    data = TypeData(box, [a], [Constructor("Full", [a], box)])
    full = Call(data.constructors[0], [Var("x")])
    assert free_type_vars(full) == []
    assert bound_type_vars(full) == all_type_vars(full) == [a]
