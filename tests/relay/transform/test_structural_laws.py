"""Laws of structural passes: order of effects, idempotence, unlimited depth."""

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apass
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import Value, evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.testing.programs import Program, programs
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount, levels

PASSES: dict[str, tuple[str, dict[str, object]]] = {
    "DeadCodeElimination": ("DeadCodeElimination", {}),
    "DeadCodeElimination inline_once": ("DeadCodeElimination", {"inline_once": True}),
    "EliminateCommonSubexpr": ("EliminateCommonSubexpr", {}),
    "EtaExpand": ("EtaExpand", {"expand_constructor": True, "expand_global_var": True}),
    "FoldConstant": ("FoldConstant", {}),
    "Inline": ("Inline", {}),
    "LambdaLift": ("LambdaLift", {}),
    "RemoveUnusedFunctions": ("RemoveUnusedFunctions", {}),
    "ToANormalForm": ("ToANormalForm", {}),
    "ToBasicBlockNormalForm": ("ToBasicBlockNormalForm", {}),
    "ToGraphNormalForm": ("ToGraphNormalForm", {}),
}
ONE = const(1)
EVERY_PASS = pytest.mark.parametrize("name", PASSES)
PROGRAMS = settings(max_examples=amount(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def apply_pass(name: str, mod: IRModule) -> IRModule:
    pass_name, options = PASSES[name]
    pass_: apass.Pass[IRModule] = apass.get_pass(pass_name, **options)
    return apass.run(pass_, mod)


def marked(mod: IRModule) -> IRModule:
    """Return the module with every function marked to be inlined."""
    return mod.with_functions({gvar.name_hint: mod[gvar].with_attr("Inline", 1) for gvar in mod.get_global_vars()})


def assert_same_meaning(before: IRModule, after: IRModule, arguments: list[Array]) -> None:
    ADAPTER.verify(after)
    assert difference(evaluate(before, *arguments), evaluate(after, *arguments)) == ""


@EVERY_PASS
@PROGRAMS
@given(programs(refs=True))
def test_pass_keeps_order_of_reads_and_writes(name: str, program: Program) -> None:
    mod, arguments = program
    before = marked(infer_module(mod))
    assert_same_meaning(before, apply_pass(name, before), arguments)


@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(refs=True), st.lists(st.sampled_from(sorted(PASSES)), min_size=2, max_size=6))
def test_any_sequence_of_passes_keeps_meaning(program: Program, names: list[str]) -> None:
    mod, arguments = program
    after = marked(infer_module(mod))
    for name in names:
        after = infer_module(apply_pass(name, after))
    assert_same_meaning(mod, after, arguments)


@EVERY_PASS
@PROGRAMS
@given(programs(refs=True))
def test_pass_is_idempotent(name: str, program: Program) -> None:
    once = apply_pass(name, marked(infer_module(program[0])))
    assert apply_pass(name, once) is once


def chain_of_calls(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(levels(50_000)):
        expr = add(expr, ONE)
    return expr


def chain_of_lets(x: Var) -> Expr:
    variables = [x, *(var(f"v{number}", "int32") for number in range(levels(20_000)))]
    body: Expr = variables[-1]
    for before, after in zip(variables[-2::-1], variables[:0:-1], strict=True):
        body = Let(after, add(before, ONE), body)
    return body


def lets_in_values(x: Var) -> Expr:
    expr: Expr = x
    for number in range(levels(5_000)):
        inner = var(f"v{number}", "int32")
        expr = Let(inner, add(expr, ONE), inner)
    return expr


def nested_branches(x: Var) -> Expr:
    condition = Call(Function([], const(True)), [])
    expr: Expr = x
    for _ in range(levels(5_000)):
        expr = If(condition, add(expr, ONE), x)
    return expr


def nested_tuples(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(levels(20_000)):
        expr = Tuple([expr])
    return Let(var("_"), expr, x)


def many_fields(x: Var) -> Expr:
    """Return a sum of all fields of one tuple expression.

    It is slow if handling a field takes time proportional to the size of the tuple.
    """
    whole = Tuple([add(x, ONE) for _ in range(3_000)])
    expr: Expr = x
    for index in range(3_000):
        expr = add(expr, TupleGetItem(whole, index))
    return expr


def nested_functions(x: Var) -> Expr:
    expr: Expr = x
    for _ in range(200):
        expr = Call(Function([], add(expr, ONE)), [])
    return expr


@cache
def deep(program: Callable[[Var], Expr]) -> tuple[IRModule, Value]:
    """Return a module, and its result for the argument 5."""
    x = var("x", "int32")
    mod = IRModule({GlobalVar("main"): Function([x], program(x))})
    return mod, evaluate(mod, 5)


@EVERY_PASS
@pytest.mark.parametrize(
    "program",
    [chain_of_calls, chain_of_lets, lets_in_values, nested_branches, nested_tuples, many_fields, nested_functions],
)
def test_pass_has_no_depth_limit(name: str, program: Callable[[Var], Expr]) -> None:
    mod, value = deep(program)
    after = apply_pass(name, mod)
    assert after is mod or difference(value, evaluate(after, 5)) == ""
