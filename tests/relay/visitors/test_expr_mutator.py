"""Mutators: which nodes are rebuilt, and which stay the same objects."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Constant, Expr, GlobalVar, Op, Tuple, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from tests.helpers.relay.walked import F, G, Identity, Rename, RenameVars, SuperMutator, X, Y, every_kind


@pytest.mark.parametrize("mutator", [Identity, SuperMutator])
def test_unchanged_expression_stays_same_object(mutator: Callable[[], ExprMutator]) -> None:
    expr = every_kind()
    assert mutator().visit(expr) is mutator().mutate(expr) is expr


def test_only_ancestors_of_change_are_rebuilt() -> None:
    unchanged, changed = Call(G, [X]), Call(F, [Y])
    result = Rename().visit(Tuple([unchanged, changed]))
    assert isinstance(result, Tuple)
    assert result.fields[0] is unchanged
    assert result.fields[1].children == (G, Y)


def test_every_kind_of_node_is_rebuilt() -> None:
    old = every_kind()
    new = RenameVars().visit(old)
    kinds = list(map(type, nodes_of(old)))
    assert list(map(type, nodes_of(new))) == kinds
    unchanged = {GlobalVar, Constant, Op, Constructor}
    pairs = zip(nodes_of(old), nodes_of(new), strict=True)
    assert {type(a) for a, b in pairs if a is b} == unchanged
    names = [node.name_hint for node in nodes_of(new) if isinstance(node, Var)]
    assert names == [f"new_{node.name_hint}" for node in nodes_of(old) if isinstance(node, Var)]


def nodes_of(expr: Expr) -> list[Expr]:
    """Return the nodes from the root downwards, shared nodes once."""
    nodes = {expr: None}
    stack = [expr]
    while stack:
        for child in reversed(stack.pop().children):
            if child not in nodes:
                nodes[child] = None
                stack.append(child)
    return list(nodes)


def test_rebuilt_node_keeps_attributes_but_not_type() -> None:
    typed = Call(F, [X], type_args=[], checked_type_=None)
    func = Function([X], typed, attrs={"Primitive": 1})
    result = Rename().visit(func)
    assert isinstance(result, Function)
    assert (result.attrs["Primitive"], result.params, result.checked_type_) == (1, (X,), None)


def test_rewriting_bound_variable_to_other_node_raises() -> None:
    class Break(ExprMutator):
        def visit_var(self, var: Var) -> Expr:
            return Constant(1)

    with pytest.raises(
        TypeError, match=r"^Break must rewrite the bound <relay.Var %x> to a Var, got <relay.Constant int64>$"
    ):
        Break().visit(Function([X], Y))


def test_mutate_all_returns_same_tuple_when_unchanged() -> None:
    args = (X, Y)
    mutator = Identity()
    mutator.visit(Tuple(args))
    assert mutator.mutate_all(args) is args
    assert Rename().mutate_all([F, X]) == (G, X)
