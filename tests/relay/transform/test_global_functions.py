"""LambdaLift, EtaExpand and RemoveUnusedFunctions."""

import pytest

import apass
from apass.relay.adt import Constructor, TypeData
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.variables import free_vars
from apass.relay.op.elementwise.arithmetic import add, subtract
from apass.relay.op.elementwise.compare import equal
from apass.relay.op.elementwise.math import negative
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.eta_expand import EtaExpand, eta_expand
from apass.relay.transform.lambda_lift import LambdaLift, lambda_lift
from apass.relay.transform.remove_unused_functions import RemoveUnusedFunctions, remove_unused_functions
from apass.relay.ty import GlobalTypeVar, TensorType, TypeCall, TypeVar
from apass.relay.type_inference.infer import infer_module
from tests.helpers.relay.evaluation import plain

INT = TensorType((), "int32")
X, Y, N = var("x", "int32"), var("y", "int32"), var("n", "int32")
F, G = var("f"), var("g")
GF, GG, MAIN = GlobalVar("f"), GlobalVar("g"), GlobalVar("main")


@pytest.mark.parametrize(
    ("pass_", "info"),
    [
        (LambdaLift(), apass.PassInfo(1, "LambdaLift", ())),
        (EtaExpand(), apass.PassInfo(1, "EtaExpand", ())),
        (RemoveUnusedFunctions(), apass.PassInfo(1, "RemoveUnusedFunctions", ())),
    ],
)
def test_levels_and_requirements_match_tvm(pass_: apass.Pass[IRModule], info: apass.PassInfo) -> None:
    assert pass_.info == info


def lifted(expr: Expr) -> IRModule:
    """Return the lifted program, after checking that it has no nested function."""
    mod = lambda_lift(infer_module(IRModule.from_expr(expr)))
    for gvar in mod.get_global_vars():
        func = mod[gvar]
        code = func.body if func.attrs.get("Closure") else func
        inner = [node for node in post_order(code) if isinstance(node, Function) and node is not code]
        assert (inner, free_vars(func)) == ([], [])
    return infer_module(mod)


def test_function_without_captures_becomes_global() -> None:
    func = Function([Y], add(Y, Y), INT)
    mod = lifted(Function([X], Call(func, [X])))
    (name,) = (gvar for gvar in mod.get_global_vars() if gvar.name_hint != "main")
    assert name.name_hint.startswith("lifted_name")
    assert structural_equal(mod[name], func)
    assert structural_equal(
        mod["main"], infer_module(IRModule({MAIN: Function([X], Call(name, [X])), name: func}))["main"]
    )


def test_function_with_captures_becomes_closure() -> None:
    program = Function([X, N], Call(Function([Y], add(subtract(X, Y), N)), [const(3)]))
    mod = lifted(program)
    (maker,) = (mod[gvar] for gvar in mod.get_global_vars() if gvar.name_hint != "main")
    assert ([param.name_hint for param in maker.params], maker.attrs.get("Closure")) == (["x", "n"], 1)
    assert plain(evaluate(mod, 10, 100)) == plain(evaluate(program, 10, 100)) == 107


def test_equal_functions_are_lifted_once() -> None:
    calls = [Call(Function([var("y", "int32")], const(1), INT), [X]) for _ in range(3)]
    assert len(lifted(Function([X], Tuple(calls)))) == 2


def test_functions_capturing_different_types_are_lifted_separately() -> None:
    fields = [Function([], captured) for captured in (var("a", "int32"), var("a", "float32"))]
    mod = lifted(Tuple([Call(field, []) for field in fields]))
    assert (len(mod), plain(evaluate(mod, 1, 2.5))) == (3, (1, 2.5))


def count_down(at_end: Expr, further: Expr) -> Function:
    return Function([N], If(equal(N, const(0)), at_end, further), INT)


def test_recursive_function_calls_itself_by_global_name() -> None:
    recursive = count_down(const(0), add(N, Call(F, [subtract(N, const(1))])))
    mod = lifted(Let(F, recursive, Call(F, [const(4)])))
    assert (len(mod), plain(evaluate(mod))) == (2, 10)


def test_recursive_call_in_nested_closure_is_lifted() -> None:
    inner = Function([], add(X, Call(F, [subtract(N, const(1))])))
    program = Let(F, count_down(const(0), Let(G, inner, Call(G, []))), Call(F, [const(4)]))
    mod = lifted(program)
    assert (len(mod), plain(evaluate(mod, 3))) == (3, 12)


def test_primitive_and_external_functions_are_not_lifted() -> None:
    primitive = Function([Y], Y, INT, attrs={"Primitive": 1})
    mod = IRModule({MAIN: Function([X], Call(primitive, [X]))})
    mod[GF] = Function([X], Call(Function([Y], Y), [X]), attrs={"Compiler": "c"})
    assert lambda_lift(mod) is mod


def test_lambda_lift_infers_types_of_captures() -> None:
    mod = lambda_lift(IRModule.from_expr(Let(Y, const(1), Function([], Y))))
    params = [param for gvar in mod.get_global_vars() for param in mod[gvar].params]
    assert [str(param.type_annotation) for param in params] == ["int32"]
    unknown = var("z")
    with pytest.raises(TypeInferenceError):
        lambda_lift(IRModule.from_expr(Function([unknown], Function([], negative(unknown)))))


KIND = TypeVar("A")
LIST = GlobalTypeVar("List")
NIL = Constructor("Nil", [], LIST)
CONS = Constructor("Cons", [KIND, TypeCall(LIST, [KIND])], LIST)
DATA = TypeData(LIST, [KIND], [NIL, CONS])


def with_list(body: Expr) -> tuple[Function, IRModule]:
    return Function([X], body), IRModule(type_definitions={LIST: DATA})


def test_constructor_used_as_value_is_wrapped() -> None:
    func, mod = with_list(CONS)
    kind = TypeVar("B")
    head, tail = var("h", kind), var("t", TypeCall(LIST, [kind]))
    expected = Function([head, tail], Call(CONS, [head, tail]), TypeCall(LIST, [kind]), [kind])
    assert structural_equal(eta_expand(func, mod), Function([X], expected))
    assert eta_expand(func, mod, expand_constructor=False, expand_global_var=True) is func


def test_called_constructor_is_not_wrapped() -> None:
    func, mod = with_list(Call(CONS, [X, Call(NIL, [])]))
    assert eta_expand(func, mod) is func
    outer, mod = with_list(Call(CONS, [NIL, Call(NIL, [])]))
    assert structural_equal(eta_expand(outer, mod).body.children[2], Call(NIL, []))


def test_global_function_used_as_value_is_wrapped() -> None:
    mod = IRModule({GF: Function([Y], Y, INT)})
    func = Function([X], Tuple([GF, Call(GF, [X])]))
    expected = Function([X], Tuple([Function([Y], Call(GF, [Y]), INT), Call(GF, [X])]))
    assert eta_expand(func, mod) is func
    assert structural_equal(eta_expand(func, mod, expand_global_var=True), expected)


def test_eta_expand_changes_nothing_by_default() -> None:
    outer, mod = with_list(CONS)
    mod["main"] = outer
    assert apass.run(EtaExpand(), mod) is mod
    expanded = apass.run(EtaExpand(expand_constructor=True), mod)
    assert structural_equal(expanded["main"], eta_expand(outer, mod))
    assert expanded is not mod


def chain() -> IRModule:
    return IRModule({MAIN: Function([X], Call(GF, [X])), GF: Function([X], X), GG: Function([X], Call(GF, [X]))})


def test_unreachable_function_is_removed() -> None:
    assert list(remove_unused_functions(chain()).functions) == [MAIN, GF]


def test_value_is_reachable_and_self_recursion_is_not() -> None:
    mod = IRModule({MAIN: Function([], Tuple([GF])), GF: Function([X], X), GG: Function([X], Call(GG, [X]))})
    assert list(remove_unused_functions(mod).functions) == [MAIN, GF]


def test_entry_functions_are_an_option() -> None:
    assert list(apass.run(RemoveUnusedFunctions(["g"]), chain()).functions) == [GF, GG]
    assert list(apass.run(RemoveUnusedFunctions([]), chain()).functions) == []


def test_fully_used_module_is_same_object() -> None:
    mod = IRModule({MAIN: Function([X], Call(GF, [X])), GF: Function([X], X)})
    assert remove_unused_functions(mod) is mod
    without_main = IRModule({GF: Function([X], X)})
    assert apass.run(RemoveUnusedFunctions(), without_main) is without_main


def test_missing_entry_error_suggests_name() -> None:
    with pytest.raises(KeyError, match="the module has no function named 'mian'; did you mean 'main'"):
        apass.run(RemoveUnusedFunctions(["mian"]), chain())
