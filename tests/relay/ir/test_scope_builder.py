"""`ScopeBuilder`: the expressions that it builds, and errors on misuse."""

from collections.abc import Callable

import pytest

from apass.relay.expr import If, Let
from apass.relay.ir.expr import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.scope_builder import ScopeBuilder
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import IncompleteType, TensorType

X, CONDITION = var("x", "float32"), var("condition", "bool")
ONE = const(1.0)


def test_bindings_enclose_result_in_order() -> None:
    sb = ScopeBuilder()
    a = sb.let("a", X)
    b = sb.let(("b", TensorType((), "float32")), add(a, X))
    c = sb.let(var("c"), b)
    sb.ret(add(c, a))
    assert (a.type_annotation, b.type_annotation) == (None, TensorType((), "float32"))
    assert structural_equal(sb.get(), Let(a, X, Let(b, add(a, X), Let(c, b, add(c, a)))))


def test_branches_have_separate_bindings() -> None:
    sb = ScopeBuilder()
    with sb.if_scope(CONDITION):
        a = sb.let("a", ONE)
        with sb.if_scope(CONDITION):
            sb.ret(a)
        with sb.else_scope():
            sb.ret(X)
    with sb.else_scope():
        sb.ret(ONE)
    assert structural_equal(sb.get(), If(CONDITION, Let(a, ONE, If(CONDITION, a, X)), ONE))


def test_type_of_expression_is_bound_for_inference() -> None:
    sb = ScopeBuilder()
    unknown = sb.type_of(add(X, ONE))
    sb.ret(X)
    built = sb.get()
    assert isinstance(built, Let)
    assert isinstance(unknown, IncompleteType)
    assert (built.var.type_annotation, sb.type_of(X)) == (unknown, X.type_annotation)


def ret_twice(sb: ScopeBuilder) -> None:
    sb.ret(X)
    sb.ret(X)


def if_after_result(sb: ScopeBuilder) -> None:
    sb.ret(X)
    with sb.if_scope(CONDITION):
        sb.ret(X)


def else_without_if(sb: ScopeBuilder) -> None:
    with sb.else_scope():
        sb.ret(X)


def if_without_else(sb: ScopeBuilder) -> None:
    with sb.if_scope(CONDITION):
        sb.ret(X)
    sb.get()


def two_ifs(sb: ScopeBuilder) -> None:
    for _ in range(2):
        with sb.if_scope(CONDITION):
            sb.ret(X)


def get_within(sb: ScopeBuilder) -> None:
    with sb.if_scope(CONDITION):
        sb.get()


def no_result_within(sb: ScopeBuilder) -> None:
    with sb.if_scope(CONDITION):
        sb.let("a", X)


def no_result(sb: ScopeBuilder) -> None:
    sb.get()


NO_ELSE = "an if_scope must be followed by its else_scope"
HAS_RESULT = "the scope already has a result; nothing can follow ret() or an else_scope"
MISUSES: list[tuple[Callable[[ScopeBuilder], None], str]] = [
    (ret_twice, HAS_RESULT),
    (if_after_result, HAS_RESULT),
    (else_without_if, "an else_scope must follow an if_scope in the same scope"),
    (if_without_else, NO_ELSE),
    (two_ifs, NO_ELSE),
    (get_within, "get() must be called outside of every if_scope and else_scope"),
    (no_result_within, "the scope has no result; set it with ret()"),
    (no_result, "the scope has no result; set it with ret()"),
]


@pytest.mark.parametrize(("misuse", "message"), MISUSES)
def test_misuse_raises_helpful_error(misuse: Callable[[ScopeBuilder], None], message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        misuse(ScopeBuilder())
    assert str(caught.value) == message


def test_error_in_branch_leaves_outer_scope_unchanged() -> None:
    sb = ScopeBuilder()
    with pytest.raises(KeyError), sb.if_scope(CONDITION):
        raise KeyError
    sb.ret(X)
    assert sb.get() is X


@pytest.mark.parametrize("invalid", [("a", None), ("a",), ("a", X, X), (X, "int32")])
def test_let_rejects_invalid_variable(invalid: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="var must be a Var, a name, or a name and a type, got"):
        ScopeBuilder().let(invalid, X)
