"""`bind` and `bind_params_by_name`."""

import numpy as np
import pytest

from apass.relay.expr import Constant, Expr, Let, Tuple
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.rewrite.bind import bind, bind_params_by_name
from apass.relay.structural.equality import structural_equal

X, Y, Z = (var(name, shape=(2,)) for name in "xyz")


def test_bind_replaces_variable_by_expression() -> None:
    assert structural_equal(bind(add(X, add(Y, X)), {X: Z}), add(Z, add(Y, Z)))


def test_bind_replaces_variables_simultaneously() -> None:
    assert structural_equal(bind(Tuple([X, Y]), {X: Y, Y: X}), Tuple([Y, X]))


def test_bind_returns_same_object_when_nothing_changes() -> None:
    expr = add(X, add(Y, X))
    shared = add(Y, Y)
    bound = bind(Tuple([X, shared]), {X: Z})
    assert (bind(expr, {Z: X}) is expr, bind(expr, {}) is expr, bound.children[1] is shared) == (True, True, True)


def test_bind_removes_or_renames_bound_parameters() -> None:
    func = Function([X, Y], add(X, Y), X.type_annotation, attrs={"Primitive": 1})
    removed, renamed = bind(func, {X: const(1.0)}), bind(func, {X: Z})
    assert structural_equal(removed, Function([Y], add(const(1.0), Y), X.type_annotation, attrs={"Primitive": 1}))
    assert structural_equal(renamed, Function([Z, Y], add(Z, Y), X.type_annotation, attrs={"Primitive": 1}))


def test_bind_adds_free_variables_as_parameters() -> None:
    assert structural_equal(bind(Function([X], add(X, X)), {X: add(Y, Z)}), _sum_function())


def _sum_function() -> Expr:
    total = add(Y, Z)
    return Function([Y, Z], add(total, total))


def test_function_without_bound_variables_is_same_object() -> None:
    func = Function([X], add(X, Y))
    assert bind(func, {Z: X}) is func
    assert bind_params_by_name(func, {"z": np.ones(2)}) is func


def test_bind_rejects_variable_bound_within_expression() -> None:
    with pytest.raises(ValueError, match="cannot bind %x: bound already by a Let, a pattern or a function within"):
        bind(Tuple([X, Let(X, Y, X)]), {X: Z})


def test_bind_params_by_name_replaces_parameters_by_constants() -> None:
    bound = bind_params_by_name(Function([X, Y], add(X, Y)), {"x": np.array([1, 2], "float32"), "other": np.ones(3)})
    assert structural_equal(bound, Function([Y], add(const([1.0, 2.0]), Y)))


def test_bind_params_by_name_rejects_repeated_name() -> None:
    func = Function([X, var("x")], X)
    with pytest.raises(ValueError, match=r"several parameters of the function are named x; use bind\(\) instead"):
        bind_params_by_name(func, {"x": np.ones(2)})
    assert bind_params_by_name(func, {}) is func


def test_bind_params_by_name_does_not_copy_constants() -> None:
    weight = const(np.ones(4)).data
    bound = bind_params_by_name(Function([X], X), {"x": weight})
    assert isinstance(bound.body, Constant)
    assert bound.body.data is weight
    assert bind_params_by_name(Function([X], X), {"x": bound.body}).body is bound.body
