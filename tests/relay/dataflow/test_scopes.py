"""The order of evaluation, and the home scopes of expressions."""

from hypothesis import given
from hypothesis import strategies as st

from apass.relay.dataflow.scopes import Scope, evaluation_order, home_scopes
from apass.relay.expr import Call, Expr, GlobalVar, If, Op, Var
from apass.relay.function import Function
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add

ATOMS = frozenset({Var, GlobalVar, Op})
X, Y = var("x"), var("y")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200))
def test_the_way_out_of_a_scope_is_that_of_its_parents(choices: list[int]) -> None:
    scopes = [Scope()]
    for choice in choices:
        scopes.append(Scope(scopes[choice % len(scopes)]))
    inner = scopes[-1]
    around = list(ancestors(inner))
    assert [inner.is_in(one) for one in scopes] == [one in around for one in scopes]
    assert [inner.within(one) for one in around[1:]] == around[:-1]
    assert inner.depth == len(around) - 1


def ancestors(scope: Scope) -> list[Scope]:
    found = [scope]
    while found[-1].parent is not None:
        found.append(found[-1].parent)
    return found


def test_the_way_out_is_short() -> None:
    scope = Scope()
    root = scope
    for _ in range(100_000):
        scope = Scope(scope)
    steps = 0
    while scope is not root:
        assert scope.parent is not None
        scope, steps = (scope.jump if scope.jump.depth >= root.depth else scope.parent), steps + 1
    assert steps <= 40


def homes_of(root: Expr) -> tuple[dict[Expr, Scope], Scope]:
    outermost = Scope()
    order = evaluation_order(root, ATOMS)
    return home_scopes(outermost, order, ATOMS, lambda scope, node, part: Scope(scope)), outermost


def test_what_is_used_in_one_branch_lives_there_and_what_is_used_in_both_around_them() -> None:
    own, shared = add(X, X), add(Y, Y)
    homes, outermost = homes_of(If(X, add(own, shared), shared))
    assert (homes[own].parent, homes[shared]) == (outermost, outermost)


def test_what_is_used_in_a_function_and_around_it_lives_around_it() -> None:
    shared, own = add(X, X), const(1.0)
    func = Function([Y], add(add(shared, Y), own))
    homes, outermost = homes_of(Call(func, [shared]))
    assert (homes[shared], homes[func], homes[own].parent) == (outermost, outermost, outermost)


def test_the_arguments_of_a_call_come_before_what_is_called() -> None:
    argument, func = add(X, X), Function([Y], Y)
    call = Call(func, [argument])
    order = [one for one in evaluation_order(call, ATOMS) if isinstance(one, Expr)]
    assert order == [argument, func, call]


def test_nothing_is_gone_over_below_an_opaque_function() -> None:
    func = Function([Y], add(Y, Y))
    assert evaluation_order(func, ATOMS, lambda one: one is func) == [func]
