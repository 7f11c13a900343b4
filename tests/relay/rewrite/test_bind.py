"""`bind` and `bind_params_by_name`."""

import numpy as np
import pytest

from apass.relay.expr import Constant, Expr, Let, Tuple
from apass.relay.function import Function
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.rewrite.bind import bind, bind_params_by_name
from apass.relay.structural.equality import structural_equal

X, Y, Z = (var(name, shape=(2,)) for name in "xyz")


def test_an_expression_stands_in_the_place_of_a_variable() -> None:
    assert structural_equal(bind(add(X, add(Y, X)), {X: Z}), add(Z, add(Y, Z)))


def test_all_are_bound_at_once() -> None:
    assert structural_equal(bind(Tuple([X, Y]), {X: Y, Y: X}), Tuple([Y, X]))


def test_what_has_none_of_the_variables_is_the_same_object() -> None:
    expr = add(X, add(Y, X))
    shared = add(Y, Y)
    made = bind(Tuple([X, shared]), {X: Z})
    assert (bind(expr, {Z: X}) is expr, bind(expr, {}) is expr, made.children[1] is shared) == (True, True, True)


def test_bound_parameters_go_or_become_the_variable_that_they_are_bound_to() -> None:
    func = Function([X, Y], add(X, Y), X.type_annotation, attrs={"Primitive": 1})
    one, renamed = bind(func, {X: const(1.0)}), bind(func, {X: Z})
    assert structural_equal(one, Function([Y], add(const(1.0), Y), X.type_annotation, attrs={"Primitive": 1}))
    assert structural_equal(renamed, Function([Z, Y], add(Z, Y), X.type_annotation, attrs={"Primitive": 1}))


def test_variables_that_come_in_become_parameters_of_a_function() -> None:
    assert structural_equal(bind(Function([X], add(X, X)), {X: add(Y, Z)}), _sum_function())


def _sum_function() -> Expr:
    total = add(Y, Z)
    return Function([Y, Z], add(total, total))


def test_a_function_of_which_nothing_is_bound_is_the_same_object() -> None:
    func = Function([X], add(X, Y))
    assert bind(func, {Z: X}) is func
    assert bind_params_by_name(func, {"z": np.ones(2)}) is func


def test_a_variable_that_is_bound_within_cannot_be_bound() -> None:
    with pytest.raises(ValueError, match="%x cannot be bound: a Let, a pattern or a function within binds it already"):
        bind(Tuple([X, Let(X, Y, X)]), {X: Z})


def test_parameters_are_bound_to_constants_by_their_names() -> None:
    bound = bind_params_by_name(Function([X, Y], add(X, Y)), {"x": np.array([1, 2], "float32"), "other": np.ones(3)})
    assert structural_equal(bound, Function([Y], add(const([1.0, 2.0]), Y)))


def test_a_name_that_several_parameters_have_is_an_error() -> None:
    func = Function([X, var("x")], X)
    with pytest.raises(ValueError, match="several parameters of the function are named x; bind them with bind"):
        bind_params_by_name(func, {"x": np.ones(2)})
    assert bind_params_by_name(func, {}) is func


def test_a_constant_is_not_copied() -> None:
    weight = const(np.ones(4)).data
    bound = bind_params_by_name(Function([X], X), {"x": weight})
    assert isinstance(bound.body, Constant)
    assert bound.body.data is weight
    assert bind_params_by_name(Function([X], X), {"x": bound.body}).body is bound.body
