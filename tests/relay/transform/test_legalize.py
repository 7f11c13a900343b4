"""Legalize: hooks of operators replace their calls."""

from collections.abc import Callable, Sequence

import pytest

import apass
from apass import relay
from apass.relay.expr import Call, Expr
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import const, var
from apass.relay.op import get, nn, register_legalize
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.transform.legalize import legalize
from apass.relay.ty import TensorType, Type
from tests.helpers.amounts import levels
from tests.helpers.relay.meaning import optimized, typed

pytestmark = pytest.mark.anyio

X, W = var("x", shape=(1, 4, 6, 6)), var("w", shape=(4, 4, 3, 3))


def leaky(attrs: Attrs | None, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr:
    """Return relu as a leaky_relu without a slope."""
    return nn.leaky_relu(inputs[0], 0.0)


def returning(result: Expr | None) -> Callable[..., Expr | None]:
    """Return a hook that always returns `result`."""

    def hook(attrs: Attrs | None, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr | None:
        return result

    return hook


def test_level_and_requirements_match_tvm() -> None:
    assert relay.transform.Legalize().info == apass.PassInfo(1, "Legalize", ("InferType",))


def test_call_becomes_several_calls() -> None:
    def scaled(attrs: Attrs, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr:
        data, weight = inputs
        return relay.multiply(Call(get("nn.conv2d"), [data, relay.divide(weight, const(2.0))], attrs), const(2.0))

    with TempOpAttr("nn.conv2d", "FTVMLegalize", scaled):
        after = optimized(nn.relu(nn.conv2d(X, W)), "Legalize")
    expected = nn.relu(relay.multiply(nn.conv2d(X, relay.divide(W, const(2.0))), const(2.0)))
    assert structural_equal(after, typed(expected)["main"])


def test_hook_gets_new_operands_and_original_types() -> None:
    seen: list[tuple[Expr, list[Type]]] = []

    def noted(attrs: Attrs | None, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr:
        seen.append((inputs[0], list(types)))
        return leaky(attrs, inputs, types)

    inner = nn.relu(X)
    with TempOpAttr("nn.relu", "FTVMLegalize", noted):
        after = legalize(typed(nn.relu(inner))["main"])
    ty = TensorType((1, 4, 6, 6), "float32")
    assert isinstance(after.body, Call)
    assert [types for _, types in seen] == [[ty, ty]] * 2
    assert seen[1] == (after.body.args[0], [ty, ty])


def test_none_keeps_function() -> None:
    func = typed(nn.relu(X))["main"]
    with TempOpAttr("nn.relu", "FTVMLegalize", returning(None)):
        assert legalize(func) is func
    assert legalize(func) is func


def test_replacement_is_not_legalized_again() -> None:
    def again(attrs: Attrs | None, inputs: Sequence[Expr], types: Sequence[Type]) -> Expr:
        return nn.relu(nn.relu(inputs[0]))

    with TempOpAttr("nn.relu", "FTVMLegalize", again):
        after = optimized(nn.relu(X), "Legalize")
    assert structural_equal(after, typed(nn.relu(nn.relu(X)))["main"])


def test_other_attribute_selects_other_hooks() -> None:
    with TempOpAttr("nn.relu", "FTVMOther", leaky):
        unchanged = optimized(nn.relu(X), "Legalize")
        after = optimized(nn.relu(X), "Legalize", legalize_map_attr_name="FTVMOther")
    assert structural_equal(unchanged, typed(nn.relu(X))["main"])
    assert structural_equal(after, typed(nn.leaky_relu(X, 0.0))["main"])
    assert str(relay.transform.Legalize("FTVMOther")) == "Legalize{legalize_map_attr_name=FTVMOther}"


def test_hook_must_return_call() -> None:
    mod = typed(nn.relu(X))
    with (
        TempOpAttr("nn.relu", "FTVMLegalize", returning(X)),
        pytest.raises(TypeError, match=r"the FTVMLegalize of nn.relu must return None or a call, got"),
    ):
        legalize(mod["main"])


async def test_registered_hook_applies_in_pass() -> None:
    register_legalize("nn.relu", leaky)
    try:
        after = await relay.transform.Legalize()(typed(nn.relu(X)))
    finally:
        get("nn.relu").reset_attr("FTVMLegalize")
    assert structural_equal(after["main"], typed(nn.leaky_relu(X, 0.0))["main"])


def test_deep_program_needs_no_recursion() -> None:
    value: Expr = X
    for _ in range(levels(20_000)):
        value = nn.relu(value)
    func = typed(Function([X], value))["main"]
    with TempOpAttr("nn.relu", "FTVMLegalize", leaky):
        after = legalize(func)
    assert isinstance(after.body, Call)
    assert after.body.op is get("nn.leaky_relu")
