"""DeadCodeElimination: what goes, what is moved, and what stays though nothing needs it."""

import apass
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import exp, negative
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.dead_code_elimination import DeadCodeElimination, eliminate_dead_code

X, Y, Z, F, CELL = (var(name) for name in ("x", "y", "z", "f", "cell"))
ONE = const(1.0)


def alive(body: Expr, *, inline_once: bool = False) -> Expr:
    """Return what is left of the body of a function of `x`."""
    return eliminate_dead_code(Function([X], body), inline_once=inline_once).body


def test_the_pass_is_of_level_1_and_requires_types() -> None:
    assert DeadCodeElimination().info == apass.PassInfo(1, "DeadCodeElimination", ())


def test_a_value_that_only_a_dead_one_needs_is_dead() -> None:
    assert alive(Let(Y, exp(X), Let(Z, negative(Y), X))) is X


def test_a_value_that_is_needed_stays() -> None:
    body = Let(Y, exp(X), add(Y, Y))
    assert alive(body) is body
    assert alive(body, inline_once=True) is body


def test_a_recursive_function_that_only_calls_itself_is_dead() -> None:
    recursive = Function([Y], Call(F, [negative(Y)]))
    assert alive(Let(F, recursive, X)) is X
    body = Let(F, recursive, Call(F, [X]))
    assert alive(body, inline_once=True) is body


def test_a_dead_let_is_taken_out_wherever_it_is() -> None:
    inner = If(X, Let(Y, exp(X), ONE), Call(Function([Z], Let(Y, exp(Z), Z)), [Let(F, X, ONE)]))
    assert structural_equal(alive(inner), If(X, ONE, Call(Function([Z], Z), [ONE])), map_free_vars=True)


def test_what_writes_stays_and_so_does_what_may() -> None:
    write = RefWrite(CELL, X)
    for value in (write, Call(X, []), Tuple([ONE, write]), Call(GlobalVar("f"), [])):
        body = Let(Y, value, X)
        assert alive(body) is body


def test_a_cell_that_nothing_needs_goes_and_so_does_a_read() -> None:
    assert alive(Let(CELL, RefCreate(X), Let(Y, RefRead(CELL), X))) is X


def test_what_a_write_needs_is_needed() -> None:
    body = Let(CELL, RefCreate(X), Let(Y, exp(X), Let(Z, RefWrite(CELL, Y), X)))
    assert alive(body) is body


def test_a_call_of_a_function_without_effects_goes() -> None:
    gvar = GlobalVar("f")
    mod = IRModule({gvar: Function([Y], exp(Y))})
    body = Let(F, Function([Y], exp(Y)), Let(Z, Call(F, [X]), Let(Y, Call(gvar, [X]), X)))
    assert eliminate_dead_code(Function([X], body), mod).body is X


def test_a_value_that_is_needed_once_is_moved_if_asked_for() -> None:
    body = Let(Y, exp(X), Let(Z, negative(Y), add(Z, X)))
    assert alive(body) is body
    assert structural_equal(alive(body, inline_once=True), add(negative(exp(X)), X))


def test_but_not_into_a_function() -> None:
    body = Let(Y, exp(X), Tuple([Function([Z], add(Y, Z))]))
    assert alive(body, inline_once=True) is body


def test_nor_if_what_needs_it_is_shared() -> None:
    shared = negative(Y)
    body = Let(Y, exp(X), multiply(shared, shared))
    assert alive(body, inline_once=True) is body


def test_nor_past_a_write() -> None:
    body = Let(Y, RefRead(CELL), Let(Z, RefWrite(CELL, X), Y))
    assert alive(body, inline_once=True) is body
