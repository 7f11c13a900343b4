"""Inline: which functions become part of others, which go, and that meaning stays."""

import apass
from apass.relay.analysis.well_formed import well_formed
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.compare import equal
from apass.relay.op.elementwise.math import exp, negative
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.inline import Inline, inline
from apass.relay.ty import TypeVar
from tests.relay.evaluation import plain

X, Y, Z = var("x", "float32"), var("y", "float32"), var("z", "float32")
F, G, H, MAIN = (GlobalVar(name) for name in ("f", "g", "h", "main"))


def function(*parts: Expr, **attrs: object) -> Function:
    """Return a function of parameters and a body, which is to be inlined unless `Inline=0` is given."""
    *params, body = parts
    return Function([one for one in params if isinstance(one, type(X))], body, attrs={"Inline": 1, **attrs})


def main_of(mod: IRModule) -> Expr:
    return mod["main"].body


def test_the_pass_has_tvms_name_and_level() -> None:
    assert Inline().info == apass.PassInfo(1, "InlineGlobals", ())
    assert apass.get_pass("Inline").info == Inline().info


def test_a_call_becomes_the_body_and_the_function_goes() -> None:
    mod = inline(IRModule({F: function(Y, add(Y, Y)), MAIN: Function([X], Call(F, [exp(X)]))}))
    argument = exp(X)
    assert structural_equal(mod, IRModule({MAIN: Function([X], add(argument, argument))}))


def test_functions_without_the_mark_stay() -> None:
    mod = IRModule({F: function(Y, Y, Inline=0), MAIN: Function([X], Call(F, [X]))})
    assert inline(mod) is mod


def test_what_an_inlined_function_calls_is_inlined_first() -> None:
    functions = {MAIN: Function([X], Call(F, [X])), F: function(Y, Call(G, [exp(Y)])), G: function(Z, negative(Z))}
    assert structural_equal(inline(IRModule(functions)), IRModule({MAIN: Function([X], negative(exp(X)))}))


def test_a_function_that_calls_one_that_stays_stays_too() -> None:
    mod = IRModule({MAIN: Function([X], Call(F, [X])), F: function(Y, Call(G, [Y])), G: Function([Z], Z)})
    assert inline(mod) is mod


def test_recursive_functions_stay() -> None:
    mod = IRModule({F: function(Y, Call(F, [Y])), G: function(Y, Call(H, [Y])), H: function(Y, Call(G, [Y]))})
    mod[MAIN] = Function([X], Tuple([Call(F, [X]), Call(G, [X])]))
    assert inline(mod) is mod


def test_an_entry_stays_though_it_is_marked() -> None:
    mod = inline(IRModule({F: function(Y, exp(Y)), MAIN: function(X, Call(F, [X]))}))
    assert structural_equal(mod, IRModule({MAIN: function(X, exp(X))}))


def test_a_function_that_is_a_value_stands_there_itself() -> None:
    mod = inline(IRModule({F: function(Y, exp(Y)), MAIN: Function([X], Tuple([F, Call(F, [X])]))}))
    assert structural_equal(mod, IRModule({MAIN: Function([X], Tuple([function(Y, exp(Y)), exp(X)]))}))


def test_a_function_for_another_compiler_or_with_type_parameters_is_called_in_place() -> None:
    other = function(Y, exp(Y), Compiler="c")
    kind = TypeVar("a")
    generic = Function([Z], Z, kind, [kind], {"Inline": 1})
    mod = inline(IRModule({F: other, G: generic, MAIN: Function([X], Tuple([Call(F, [X]), Call(G, [X])]))}))
    assert structural_equal(mod, IRModule({MAIN: Function([X], Tuple([Call(other, [X]), Call(generic, [X])]))}))


def test_every_site_has_variables_of_its_own() -> None:
    a = var("a")
    main = Function([X], add(Call(F, [X]), Call(F, [add(X, X)])))
    mod = IRModule({F: function(Y, Let(a, add(Y, const(1.0)), add(a, a))), MAIN: main})
    inlined = inline(mod)
    assert well_formed(inlined["main"])
    assert [plain(evaluate(one, 3.0)) for one in (mod, inlined)] == [22.0, 22.0]


def test_every_site_has_cells_of_its_own() -> None:
    one, other = var("one"), var("other")
    body = Let(one, Call(F, []), Let(other, Call(F, []), Let(var("_"), RefWrite(one, X), RefRead(other))))
    mod = IRModule({F: function(RefCreate(const(0.0))), MAIN: Function([X], body)})
    assert [plain(evaluate(each, 5.0)) for each in (mod, inline(mod))] == [0.0, 0.0]


def test_an_argument_that_writes_is_evaluated_once_whatever_becomes_of_the_parameter() -> None:
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
    assert [plain(evaluate(each, 0.0)) for each in (mod, inlined)] == [(0.0, ((), ()), (), 111.0)] * 2


def test_a_module_in_which_nothing_is_called_is_the_same_object() -> None:
    mod = IRModule({F: function(Y, Y), MAIN: Function([X], X)})
    assert inline(mod) is mod
