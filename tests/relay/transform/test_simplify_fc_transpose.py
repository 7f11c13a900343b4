"""SimplifyFCTranspose: transposed weights of nn.dense become parameters."""

import anyio
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.errors import PassDefinitionError
from apass.relay.analysis import search_fc_transpose
from apass.relay.expr import Expr, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.math import exp
from apass.relay.op.nn.dense.dense import dense
from apass.relay.op.shape.axes import transpose
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.simplify_fc_transpose import SimplifyFCTranspose
from apass.relay.type_inference.infer import infer_module

X, W, V = var("x", shape=(2, 4)), var("w", shape=(4, 5)), var("v", shape=(5, 3))


def after(expr: Expr, *names: str) -> Function:
    """Return `main` after the pass, in a context that enables it."""
    mod = IRModule.from_expr(expr)

    async def main() -> IRModule:
        async with apass.PassContext(opt_level=4):
            return await apass.Sequential([SimplifyFCTranspose(list(names))])(mod)

    return anyio.run(main)["main"]


def names(func: Function) -> list[str]:
    return [param.name_hint for param in func.params]


def test_transposed_weight_becomes_parameter() -> None:
    func = Function([W, X, V], dense(exp(dense(X, transpose(W, [1, 0]))), transpose(V)))
    result = after(func, "w", "v")
    expected = Function(
        [X, wt := var("w.T", shape=(5, 4)), vt := var("v.T", shape=(3, 5))], dense(exp(dense(X, wt)), vt)
    )
    assert structural_equal(result, infer_module(IRModule.from_expr(expected))["main"])
    assert names(result) == ["x", "w.T", "v.T"]
    assert search_fc_transpose(result) == []


def test_weight_of_two_layers_becomes_one_parameter() -> None:
    # TVM makes two parameters of the same name.
    func = Function([X, W], Tuple([dense(X, transpose(W)), dense(exp(X), transpose(W)), W]))
    assert names(after(func, "w")) == ["x", "w", "w.T"]


@pytest.mark.parametrize(
    "expr",
    [
        dense(X, var("u", shape=(5, 4))),
        dense(X, transpose(var("square", shape=(4, 4)), [0, 1])),
        Let(var("local"), exp(W), dense(X, transpose(var("outer", shape=(5, 4)), [0, 1]))),
    ],
)
def test_other_weights_are_left(expr: Expr) -> None:
    assert search_fc_transpose(expr) == []
    before = infer_module(IRModule.from_expr(expr))["main"]
    assert [name for name in names(after(expr)) if name.endswith(".T")] == []
    assert set(names(after(expr))) == set(names(before))


def test_local_weight_is_left() -> None:
    local = var("local", shape=(4, 5))
    result = after(Function([X, W], Let(local, exp(W), dense(X, transpose(local)))), "local")
    assert names(result) == ["x", "w"]


def test_unlisted_weight_is_an_error() -> None:
    with pytest.raises(PassDefinitionError, match=r"weight %w is transposed .* target_weight_name has only: v"):
        after(Function([X, W], dense(X, transpose(W))), "v")


@pytest.mark.slow
@given(programs(), st.booleans())
def test_meaning_is_kept_beside_any_program(program: Program, uses_weight: bool) -> None:
    mod, arguments = program
    main = mod["main"]
    assert isinstance(main, Function)
    fields = [main.body, dense(X, transpose(W)), *[W] * uses_weight]
    mod = mod.copy()
    mod["main"] = Function([W, *main.params, X], Tuple(fields))
    arguments = [np.arange(20, dtype="float32").reshape(4, 5), *arguments, np.ones((2, 4), "float32")]
    weights = search_fc_transpose(mod["main"])
    result = apass.run(SimplifyFCTranspose(weights), mod)
    values = dict(zip(names(mod["main"]), map(np.asarray, arguments), strict=True))
    inputs = [values[name] if name in values else values[name[:-2]].T for name in names(result["main"])]
    assert ("w" in names(result["main"])) == uses_weight
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(result, *inputs)) == ""
