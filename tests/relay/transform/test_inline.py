"""Inline: the functions it inlines and removes, and unchanged meaning."""

import apass
from apass.relay.analysis.well_formed import well_formed
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.compare import equal
from apass.relay.op.elementwise.math import exp, negative
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.inline import Inline, inline
from apass.relay.ty import TypeVar
from tests.helpers.relay.evaluation import plain

X, Y, Z = var("x", "float32"), var("y", "float32"), var("z", "float32")
F, G, H, MAIN = (GlobalVar(name) for name in ("f", "g", "h", "main"))


def function(*parts: Expr, **attrs: object) -> Function:
    """Return a function of parameters and a body; `Inline=0` leaves it unmarked."""
    *params, body = parts
    return Function([param for param in params if isinstance(param, type(X))], body, attrs={"Inline": 1, **attrs})


def main_of(mod: IRModule) -> Expr:
    return mod["main"].body


def test_inline_has_name_and_level_of_tvm() -> None:
    assert Inline().info == apass.PassInfo(1, "InlineGlobals", ())
    assert apass.get_pass("Inline").info == Inline().info


def test_call_becomes_body_and_function_is_removed() -> None:
    mod = inline(IRModule({F: function(Y, add(Y, Y)), MAIN: Function([X], Call(F, [exp(X)]))}))
    argument = exp(X)
    assert structural_equal(mod, IRModule({MAIN: Function([X], add(argument, argument))}))


def test_function_without_inline_attribute_stays() -> None:
    mod = IRModule({F: function(Y, Y, Inline=0), MAIN: Function([X], Call(F, [X]))})
    assert inline(mod) is mod


def test_callee_of_inlined_function_is_inlined_first() -> None:
    functions = {MAIN: Function([X], Call(F, [X])), F: function(Y, Call(G, [exp(Y)])), G: function(Z, negative(Z))}
    assert structural_equal(inline(IRModule(functions)), IRModule({MAIN: Function([X], negative(exp(X)))}))


def test_function_calling_uninlined_function_stays() -> None:
    mod = IRModule({MAIN: Function([X], Call(F, [X])), F: function(Y, Call(G, [Y])), G: Function([Z], Z)})
    assert inline(mod) is mod


def test_recursive_functions_stay() -> None:
    mod = IRModule({F: function(Y, Call(F, [Y])), G: function(Y, Call(H, [Y])), H: function(Y, Call(G, [Y]))})
    mod[MAIN] = Function([X], Tuple([Call(F, [X]), Call(G, [X])]))
    assert inline(mod) is mod


def test_marked_entry_function_stays() -> None:
    mod = inline(IRModule({F: function(Y, exp(Y)), MAIN: function(X, Call(F, [X]))}))
    assert structural_equal(mod, IRModule({MAIN: function(X, exp(X))}))


def test_function_used_as_value_replaces_its_name() -> None:
    mod = inline(IRModule({F: function(Y, exp(Y)), MAIN: Function([X], Tuple([F, Call(F, [X])]))}))
    assert structural_equal(mod, IRModule({MAIN: Function([X], Tuple([function(Y, exp(Y)), exp(X)]))}))


def test_external_or_generic_function_is_called_directly() -> None:
    second = function(Y, exp(Y), Compiler="c")
    kind = TypeVar("a")
    generic = Function([Z], Z, kind, [kind], {"Inline": 1})
    mod = inline(IRModule({F: second, G: generic, MAIN: Function([X], Tuple([Call(F, [X]), Call(G, [X])]))}))
    assert structural_equal(mod, IRModule({MAIN: Function([X], Tuple([Call(second, [X]), Call(generic, [X])]))}))


def test_every_call_site_gets_fresh_variables() -> None:
    a = var("a")
    main = Function([X], add(Call(F, [X]), Call(F, [add(X, X)])))
    mod = IRModule({F: function(Y, Let(a, add(Y, const(1.0)), add(a, a))), MAIN: main})
    inlined = inline(mod)
    assert well_formed(inlined["main"])
    assert [plain(evaluate(program, 3.0)) for program in (mod, inlined)] == [22.0, 22.0]


def test_every_call_site_gets_its_own_cells() -> None:
    first, second = var("one"), var("other")
    body = Let(first, Call(F, []), Let(second, Call(F, []), Let(var("_"), RefWrite(first, X), RefRead(second))))
    mod = IRModule({F: function(RefCreate(const(0.0))), MAIN: Function([X], body)})
    assert [plain(evaluate(program, 5.0)) for program in (mod, inline(mod))] == [0.0, 0.0]


def test_argument_that_writes_is_evaluated_once() -> None:
    cell, flag = var("cell"), var("flag", "bool")
    write = RefWrite(cell, add(RefRead(cell), const(1.0)))
    unused, twice, rarely = var("a"), var("b"), var("c")
    functions = {
        F: function(unused, const(0.0)),
        G: function(twice, Tuple([twice, twice])),
        H: function(flag, rarely, If(flag, rarely, Tuple([]))),
    }
    calls = [Call(F, [write]), Call(G, [RefWrite(cell, add(RefRead(cell), const(10.0)))])]
    guarded = Call(H, [equal(X, const(1.0)), RefWrite(cell, add(RefRead(cell), const(100.0)))])
    body = Let(cell, RefCreate(const(0.0)), Tuple([*calls, guarded, RefRead(cell)]))
    mod = IRModule({**functions, MAIN: Function([X], body)})
    inlined = inline(mod)
    assert len(inlined) == 1
    assert [plain(evaluate(program, 0.0)) for program in (mod, inlined)] == [(0.0, ((), ()), (), 111.0)] * 2


def test_module_without_calls_is_same_object() -> None:
    mod = IRModule({F: function(Y, Y), MAIN: Function([X], X)})
    assert inline(mod) is mod
