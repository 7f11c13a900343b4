"""DeadCodeElimination: the bindings it drops, inlines and keeps."""

import apass
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add, multiply
from apass.relay.op.elementwise.math import exp, negative
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.dead_code_elimination import DeadCodeElimination, eliminate_dead_code

X, Y, Z, F, CELL = (var(name) for name in ("x", "y", "z", "f", "cell"))
ONE = const(1.0)


def alive(body: Expr, *, inline_once: bool = False) -> Expr:
    """Return the body of a function of `x` after the elimination."""
    return eliminate_dead_code(Function([X], body), inline_once=inline_once).body


def test_dead_code_elimination_has_level_one() -> None:
    assert DeadCodeElimination().info == apass.PassInfo(1, "DeadCodeElimination", ())


def test_value_used_only_by_dead_value_is_dropped() -> None:
    assert alive(Let(Y, exp(X), Let(Z, negative(Y), X))) is X


def test_used_value_stays() -> None:
    body = Let(Y, exp(X), add(Y, Y))
    assert alive(body) is body
    assert alive(body, inline_once=True) is body


def test_recursive_function_used_only_by_itself_is_dropped() -> None:
    recursive = Function([Y], Call(F, [negative(Y)]))
    assert alive(Let(F, recursive, X)) is X
    body = Let(F, recursive, Call(F, [X]))
    assert alive(body, inline_once=True) is body


def test_nested_dead_let_is_dropped() -> None:
    inner = If(X, Let(Y, exp(X), ONE), Call(Function([Z], Let(Y, exp(Z), Z)), [Let(F, X, ONE)]))
    assert structural_equal(alive(inner), If(X, ONE, Call(Function([Z], Z), [ONE])), map_free_vars=True)


def test_value_that_may_write_stays() -> None:
    write = RefWrite(CELL, X)
    for value in (write, Call(X, []), Tuple([ONE, write]), Call(GlobalVar("f"), [])):
        body = Let(Y, value, X)
        assert alive(body) is body


def test_unused_cell_and_unused_read_are_dropped() -> None:
    assert alive(Let(CELL, RefCreate(X), Let(Y, RefRead(CELL), X))) is X


def test_value_used_by_write_stays() -> None:
    body = Let(CELL, RefCreate(X), Let(Y, exp(X), Let(Z, RefWrite(CELL, Y), X)))
    assert alive(body) is body


def test_unused_call_without_effects_is_dropped() -> None:
    gvar = GlobalVar("f")
    mod = IRModule({gvar: Function([Y], exp(Y))})
    body = Let(F, Function([Y], exp(Y)), Let(Z, Call(F, [X]), Let(Y, Call(gvar, [X]), X)))
    assert eliminate_dead_code(Function([X], body), mod).body is X


def test_value_used_once_is_inlined_when_enabled() -> None:
    body = Let(Y, exp(X), Let(Z, negative(Y), add(Z, X)))
    assert alive(body) is body
    assert structural_equal(alive(body, inline_once=True), add(negative(exp(X)), X))


def test_value_used_in_function_is_not_inlined() -> None:
    body = Let(Y, exp(X), Tuple([Function([Z], add(Y, Z))]))
    assert alive(body, inline_once=True) is body


def test_value_used_by_shared_expression_is_not_inlined() -> None:
    shared = negative(Y)
    body = Let(Y, exp(X), multiply(shared, shared))
    assert alive(body, inline_once=True) is body


def test_read_is_not_moved_past_write() -> None:
    body = Let(Y, RefRead(CELL), Let(Z, RefWrite(CELL, X), Y))
    assert alive(body, inline_once=True) is body
