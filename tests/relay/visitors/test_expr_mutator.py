"""Rewriting expressions: what is made anew, and what comes back as it was."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Constant, Expr, GlobalVar, Op, Tuple, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from tests.relay.walked import F, G, Identity, Rename, RenameVars, SuperMutator, X, Y, every_kind


@pytest.mark.parametrize("mutator", [Identity, SuperMutator])
def test_what_does_not_change_comes_back_as_the_same_object(mutator: Callable[[], ExprMutator]) -> None:
    expr = every_kind()
    assert mutator().visit(expr) is expr


def test_a_change_makes_anew_what_is_above_it_and_nothing_else() -> None:
    kept, changed = Call(G, [X]), Call(F, [Y])
    made = Rename().visit(Tuple([kept, changed]))
    assert isinstance(made, Tuple)
    assert made.fields[0] is kept
    assert made.fields[1].children == (G, Y)


def test_every_kind_is_made_anew_with_what_it_holds() -> None:
    old = every_kind()
    new = RenameVars().visit(old)
    kinds = list(map(type, nodes_of(old)))
    assert list(map(type, nodes_of(new))) == kinds
    unchanged = {GlobalVar, Constant, Op, Constructor}
    pairs = zip(nodes_of(old), nodes_of(new), strict=True)
    assert {type(a) for a, b in pairs if a is b} == unchanged
    names = [one.name_hint for one in nodes_of(new) if isinstance(one, Var)]
    assert names == [f"new_{one.name_hint}" for one in nodes_of(old) if isinstance(one, Var)]


def nodes_of(expr: Expr) -> list[Expr]:
    """Return the nodes in the order in which they are met from the top, the shared ones once."""
    found = {expr: None}
    work = [expr]
    while work:
        for child in reversed(work.pop().children):
            if child not in found:
                found[child] = None
                work.append(child)
    return list(found)


def test_a_node_made_anew_keeps_attributes_and_forgets_its_type() -> None:
    typed = Call(F, [X], type_args=[], checked_type_=None)
    func = Function([X], typed, attrs={"Primitive": 1})
    made = Rename().visit(func)
    assert isinstance(made, Function)
    assert (made.attrs["Primitive"], made.params, made.checked_type_) == (1, (X,), None)


def test_only_a_variable_can_be_bound() -> None:
    class Break(ExprMutator):
        def visit_var(self, var: Var) -> Expr:
            return Constant(1)

    with pytest.raises(TypeError, match=r"Break made <relay.Constant int64> of <relay.Var %x> where it is bound"):
        Break().visit(Function([X], Y))


def test_mutate_all_gives_back_the_tuple_that_was_given_if_nothing_changed() -> None:
    args = (X, Y)
    mutator = Identity()
    mutator.visit(Tuple(args))
    assert mutator.mutate_all(args) is args
    assert Rename().mutate_all([F, X]) == (G, X)
