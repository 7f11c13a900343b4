"""`recast`, ChangeBatch and `build_config`."""

import anyio
import numpy as np
import pytest

import apass
from apass.relay import transform
from apass.relay.expr import Call, Expr, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import call_op, op_name
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.nn.conv.conv import conv2d
from apass.relay.op.nn.dense.dense import dense
from apass.relay.parser import parse
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing.mlp import get_workload
from apass.relay.transform import ChangeBatch, build_config, recast
from apass.relay.type_inference.infer import infer_expr, infer_module
from tests.helpers.amounts import levels


def convolutions(count: int) -> Function:
    """Return a chain of convolutions."""
    x = var("x", shape=(1, 1, 4, 4))
    body: Expr = x
    for _ in range(count):
        body = conv2d(body, const(np.ones((1, 1, 1, 1), "float32")), kernel_size=(1, 1), channels=1)
    return Function([x], body)


def recast_layers(func: Function, skip_layers: list[int]) -> list[bool]:
    """Return for each convolution, first layer first, whether it was recast."""
    result = infer_expr(recast(func, "int8", "int32", skip_layers=skip_layers))
    calls = [node for node in post_order(result) if isinstance(node, Call) and op_name(node) == "nn.conv2d"]
    return [call.attrs is not None and call.attrs["out_dtype"] == "int32" for call in calls]


def test_arguments_and_result_are_cast() -> None:
    x, w = var("x", shape=(1, 1, 4, 4)), var("w", shape=(1, 1, 1, 1))
    result = recast(Function([x, w], conv2d(x, w, kernel_size=(1, 1), channels=1)), "int8", "int32")
    inner = conv2d(
        call_op("cast", x, dtype="int8"),
        call_op("cast", w, dtype="int8"),
        kernel_size=(1, 1),
        channels=1,
        out_dtype="int32",
    )
    expected = Function([x, w], call_op("cast", inner, dtype="float32"))
    assert_structural_equal(infer_expr(result), infer_expr(expected))


@pytest.mark.parametrize(
    ("skip_layers", "expected"),
    [
        ([], [True, True, True]),
        ([0], [False, True, True]),
        ([2], [True, True, False]),
        ([-1], [True, True, False]),
        ([0, -2], [False, False, True]),
    ],
)
def test_layers_are_skipped(skip_layers: list[int], expected: list[bool]) -> None:
    assert recast_layers(convolutions(3), skip_layers) == expected


def test_second_argument_is_in_same_layer() -> None:
    x, w = var("x", shape=(2, 2)), var("w", shape=(2, 2))
    func = Function([x, w], dense(dense(x, w), dense(w, w)))
    result = recast(func, "int8", "int32", ["nn.dense"], [1])
    calls = [node for node in post_order(result) if isinstance(node, Call) and op_name(node) == "nn.dense"]
    assert [call.attrs is not None and call.attrs["out_dtype"] for call in calls] == ["int32", "", ""]


def test_other_operators_and_types_stay() -> None:
    mod, _ = get_workload(1)
    result = recast(mod, "int8", "int32", ["nn.conv2d"])
    assert_structural_equal(infer_module(result), infer_module(mod))
    after = infer_module(recast(mod, "float64", "float64", ["nn.dense"]))
    assert after["main"].checked_type == infer_module(mod)["main"].checked_type


def test_module_keeps_other_functions() -> None:
    mod = parse('#[version = "0.0.5"]\ndef @f(%x: float32) { exp(%x) } def @main(%x: float32) { add(%x, @f(%x)) }')
    result = recast(mod, "float64", "float64", ["add"])
    assert result["f"] is mod["f"]
    assert evaluate(result, 0.0) == 1


def test_deep_program_is_recast() -> None:
    x = var("x", "float32")
    body: Expr = x
    for _ in range(levels(10_000)):
        body = call_op("negative", body)
    assert evaluate(recast(Function([x], body), "float64", "", ["negative"]), 2.0) == 2


def test_batch_size_is_changed() -> None:
    mod, params = get_workload(1)
    func = infer_module(mod)["main"]
    after = apass.run(ChangeBatch({func.params[0]: 0}, batch_size=3), infer_module(mod))["main"]
    assert str(after.ret_type) == "Tensor[(3, 10), float32]"
    assert params


def test_batch_size_of_program_with_scopes_is_changed() -> None:
    text = """
    def @main(%x: Tensor[(1, 2), float32]) {
      let %y = add(%x, %x);
      let %f = fn (%z: Tensor[(1, 2), float32]) -> Tensor[(1, 2), float32] { negative(%z) };
      if (True) { %f(%y) } else { %y }
    }
    """
    mod = infer_module(parse('#[version = "0.0.5"]' + text))
    after = apass.run(ChangeBatch({mod["main"].params[0]: 0}), mod)["main"]
    assert str(after.checked_type) == "fn (Tensor[(16, 2), float32]) -> Tensor[(16, 2), float32]"


def test_batch_of_other_types_is_error() -> None:
    x, t = var("x", shape=(1, 2)), var("t")
    for data in ({x: 2}, {t: 0}):
        with pytest.raises(ValueError, match="must be a tensor with an axis"):
            transform.ChangeBatch(data).transform_function(
                Function([x, t], Tuple([x, t])), IRModule(), apass.PassContext()
            )


def test_build_config_is_pass_context() -> None:
    seen: list[tuple[str, bool]] = []
    with pytest.warns(DeprecationWarning, match="use apass.PassContext"):
        ctx = build_config(3, ["FoldConstant"], ["FuseOps"], lambda mod, info, before: seen.append((info.name, before)))
    assert (ctx.opt_level, set(ctx.required_pass), set(ctx.disabled_pass)) == (3, {"FoldConstant"}, {"FuseOps"})

    async def main() -> None:
        async with ctx:
            await transform.InferType()(IRModule())

    anyio.run(main)
    assert seen == [("InferType", True), ("InferType", False)]
