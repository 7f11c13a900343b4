"""The order of evaluation, and the home scopes of expressions."""

from hypothesis import given
from hypothesis import strategies as st

from apass.relay.dataflow.scopes import HomeScope, evaluation_order, home_scopes
from apass.relay.expr import Call, Expr, GlobalVar, If, Op, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.op.elementwise.arithmetic import add
from tests.helpers.amounts import levels

ATOMS = frozenset({Var, GlobalVar, Op})
X, Y = var("x"), var("y")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=200))
def test_enclosing_scopes_are_those_of_parents(choices: list[int]) -> None:
    scopes = [HomeScope()]
    for choice in choices:
        scopes.append(HomeScope(scopes[choice % len(scopes)]))
    inner = scopes[-1]
    enclosing = list(ancestors(inner))
    assert [inner.is_in(scope) for scope in scopes] == [scope in enclosing for scope in scopes]
    assert [inner.within(scope) for scope in enclosing[1:]] == enclosing[:-1]
    assert inner.depth == len(enclosing) - 1


def ancestors(scope: HomeScope) -> list[HomeScope]:
    scopes = [scope]
    while scopes[-1].parent is not None:
        scopes.append(scopes[-1].parent)
    return scopes


def test_outermost_scope_is_reached_in_few_jumps() -> None:
    scope = HomeScope()
    root = scope
    for _ in range(levels(100_000)):
        scope = HomeScope(scope)
    steps = 0
    while scope is not root:
        assert scope.parent is not None
        scope, steps = (scope.jump if scope.jump.depth >= root.depth else scope.parent), steps + 1
    assert steps <= 40


def homes_of(root: Expr) -> tuple[dict[Expr, HomeScope], HomeScope]:
    outermost = HomeScope()
    order = evaluation_order(root, ATOMS)
    return home_scopes(outermost, order, ATOMS, lambda scope, node, part: HomeScope(scope)), outermost


def test_expression_shared_by_branches_belongs_around_them() -> None:
    local, shared = add(X, X), add(Y, Y)
    homes, outermost = homes_of(If(X, add(local, shared), shared))
    assert (homes[local].parent, homes[shared]) == (outermost, outermost)


def test_expression_shared_with_function_belongs_around_it() -> None:
    shared, local = add(X, X), const(1.0)
    func = Function([Y], add(add(shared, Y), local))
    homes, outermost = homes_of(Call(func, [shared]))
    assert (homes[shared], homes[func], homes[local].parent) == (outermost, outermost, outermost)


def test_arguments_are_evaluated_before_callee() -> None:
    argument, func = add(X, X), Function([Y], Y)
    call = Call(func, [argument])
    order = [event for event in evaluation_order(call, ATOMS) if isinstance(event, Expr)]
    assert order == [argument, func, call]


def test_evaluation_order_does_not_enter_opaque_function() -> None:
    func = Function([Y], add(Y, Y))
    assert evaluation_order(func, ATOMS, lambda node: node is func) == [func]
