"""ToMixedPrecision: operators get a lower precision by their categories."""

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import apass
from apass.errors import PassDefinitionError
from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Call, Expr, GlobalVar, RefCreate, RefRead, Var
from apass.relay.function import Function
from apass.relay.integration.adapter import ADAPTER
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import OPS, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.math import exp
from apass.relay.op.elementwise.trigonometry import atan
from apass.relay.op.nn.activation import relu
from apass.relay.op.nn.dense.dense import dense
from apass.relay.parser import fromtext
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing import resnet
from apass.relay.testing.programs import Program, programs
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.transform import mixed_precision
from apass.relay.transform.to_mixed_precision import ToMixedPrecision
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount, levels
from tests.helpers.relay.meaning import ops_of

HEADER = '#[version = "0.0.5"]\n'
INPUTS = HEADER + "def @main(%x: Tensor[(2, 4), float32], %w: Tensor[(3, 4), float32], %c: bool)"
X, W = var("x", shape=(2, 4)), var("w", shape=(3, 4))


def converted(text: str, dtype: str = "float16") -> IRModule:
    return apass.run(ToMixedPrecision(dtype, missing_op_mode=2), fromtext(text))


def same(text: str, expected: str) -> None:
    """Assert that a program becomes another one, which is well-typed."""
    assert_structural_equal(converted(text), fromtext(expected))


def test_always_operators_get_the_lower_precision() -> None:
    same(
        INPUTS + "{ exp(nn.relu(nn.dense(%x, %w, units=3))) }",
        INPUTS
        + """{
  %0 = cast(%x, dtype="float16");
  %1 = cast(%w, dtype="float16");
  %2 = nn.dense(%0, %1, units=3, out_dtype="float16");
  %3 = nn.relu(%2);
  %4 = cast(%3, dtype="float32");
  exp(%4)
}""",
    )


def test_follow_operators_need_all_operands() -> None:
    # A variable can follow, but the result of exp stays float32.
    same(
        INPUTS + "{ %0 = exp(%x); %1 = nn.relu(%x); (add(%0, %1), %1) }",
        INPUTS
        + """{
  %0 = exp(%x);
  %1 = cast(%x, dtype="float16");
  %2 = nn.relu(%1);
  %3 = cast(%2, dtype="float32");
  (add(%0, %3), %2)
}""",
    )


def test_value_is_cast_once_and_not_back_again() -> None:
    main = converted(INPUTS + "{ %0 = nn.relu(%x); (exp(%x), exp(%0), nn.softmax(%0), tanh(%x)) }")["main"]
    assert ops_of(main).count("cast") == 2
    assert exp_operand(main) is main.params[0]


def exp_operand(main: Function) -> Expr:
    """Return the operand of the first call of exp."""
    return next(node.children[1] for node in post_order(main) if ops_of(node)[-1:] == ["exp"])


def test_creation_takes_the_lower_precision() -> None:
    same(
        INPUTS + '{ nn.dense(zeros(shape=[2, 4], dtype="float32"), %w, units=3) }',
        INPUTS
        + """{
  %0 = zeros(shape=[2, 4], dtype="float16");
  %1 = cast(%w, dtype="float16");
  nn.dense(%0, %1, units=3, out_dtype="float16")
}""",
    )


def test_integers_are_not_cast() -> None:
    text = HEADER + 'def @main(%i: Tensor[(2), int32]) { (add(%i, %i), cast(%i, dtype="float32")) }'
    same(text, text)


def test_tuples_are_cast_by_field() -> None:
    text = INPUTS + "{ %0 = nn.dense(%x, %w, units=3); %1 = split(%0, indices_or_sections=[1], axis=1); exp(%1.0) }"
    main = converted(text)["main"]
    assert ops_of(main) == ["cast", "cast", "nn.dense", "split", "cast", "exp"]
    joined = converted(INPUTS + "{ concatenate((nn.dense(%x, %w, units=3), exp(%x)), axis=1) }")["main"]
    assert ops_of(joined) == ["cast", "cast", "nn.dense", "cast", "exp", "concatenate"]


def test_let_variable_takes_type_of_value() -> None:
    main = converted(INPUTS + "{ let %v = nn.dense(%x, %w, units=3); let %u = nn.relu(%v); exp(%u) }")["main"]
    types = {node.name_hint: str(node.checked_type) for node in post_order(main) if isinstance(node, Var)}
    assert types["v"] == types["u"] == "Tensor[(2, 3), float16]"
    assert str(main.ret_type) == "Tensor[(2, 3), float32]"


def test_branches_of_different_types_are_cast_back() -> None:
    main = converted(INPUTS + "{ if (%c) { nn.relu(%x) } else { exp(%x) } }")["main"]
    assert str(main.ret_type) == "Tensor[(2, 4), float32]"
    both = converted(INPUTS + "{ if (%c) { nn.relu(%x) } else { tanh(%x) } }")["main"]
    assert str(both.ret_type) == "Tensor[(2, 4), float16]"


def test_cells_and_functions_keep_their_types() -> None:
    inner = Var("p", X.type_annotation)
    func = Function([inner], dense(inner, W))
    body = add(Call(func, [relu(X)]), exp(RefRead(RefCreate(dense(X, W)))))
    mod = infer_module(IRModule.from_expr(Function([X, W], body)))
    after = apass.run(ToMixedPrecision(), mod)
    assert infer_module(after, trust=False) is after
    assert str(next(node for node in post_order(after["main"]) if isinstance(node, RefCreate)).checked_type) == (
        "ref(Tensor[(2, 3), float32])"
    )


@pytest.mark.parametrize("callee", [GlobalVar("main"), Var("f")])
def test_calls_of_names_are_errors(callee: Expr) -> None:
    mod = fromtext(
        HEADER
        + "def @f(%x: float32) -> float32 { %x }\n"
        + ("def @main(%x: float32) { @f(%x) }" if isinstance(callee, GlobalVar) else MAIN_WITH_CLOSURE)
    )
    with pytest.raises(OpNotImplementedError, match="supports operators and function expressions, got <relay"):
        apass.run(ToMixedPrecision(), mod)


MAIN_WITH_CLOSURE = "def @main(%x: float32) { let %f = fn (%y: float32) { %y }; %f(%x) }"


def warnings_of(mode: int) -> list[str]:
    """Return the warnings of a conversion of two unregistered calls."""
    mod = infer_module(IRModule.from_expr(atan(atan(X))))
    ctx = apass.PassContext()

    async def main() -> None:
        async with ctx:
            await ToMixedPrecision("float16", mode)(mod)

    try:
        anyio.run(main)
    finally:
        text = ctx.diag_ctx.rendered()
    return [line for line in text.splitlines() if "registered" in line]


def test_missing_operators_are_reported_by_mode() -> None:
    (warning,) = warnings_of(1)
    assert 'Op "atan" not registered FTVMMixedPrecisionConversionType appears 2 times in graph.' in warning
    assert warnings_of(2) == []
    with pytest.raises(OpNotImplementedError, match=r"missing ops were found: .* for atan; use"):
        warnings_of(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"missing_op_mode": 3}, "missing_op_mode must be 0, 1 or 2, got 3"),
        ({"mixed_precision_type": "int8"}, "mixed_precision_type must be a floating-point type, .* got 'int8'"),
    ],
)
def test_invalid_options_are_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(PassDefinitionError, match=message):
        apass.get_pass("ToMixedPrecision", **options)


def test_accumulation_type_differs_from_result() -> None:
    def conversion(call: Call, mixed_precision_type: str) -> tuple[int, str, str]:
        return mixed_precision.MIXED_PRECISION_ALWAYS, "float32", mixed_precision_type

    def too_short(call: Call, mixed_precision_type: str) -> list[int | str]:
        return [mixed_precision.MIXED_PRECISION_ALWAYS, mixed_precision_type]

    with TempOpAttr("nn.dense", "FTVMMixedPrecisionConversionType", conversion):
        main = converted(INPUTS + "{ nn.dense(%x, %w, units=3) }")["main"]
    assert ops_of(main) == ["cast", "cast", "nn.dense", "cast"]
    assert str(main.ret_type) == "Tensor[(2, 3), float16]"
    with (
        TempOpAttr("nn.dense", "FTVMMixedPrecisionConversionType", too_short),
        pytest.raises(PassDefinitionError, match="must return a category, an accumulation type and"),
    ):
        converted(INPUTS + "{ nn.dense(%x, %w, units=3) }")


def test_all_operators_of_lists_are_registered() -> None:
    lists = (
        (mixed_precision.DEFAULT_ALWAYS_LIST, mixed_precision.generic_always_op),
        (mixed_precision.DEFAULT_FOLLOW_LIST, mixed_precision.generic_follow_op),
        (mixed_precision.DEFAULT_NEVER_LIST, mixed_precision.generic_never_op),
    )
    for names, conversion in lists:
        found = [OPS[name].get_attr("FTVMMixedPrecisionConversionType") is conversion for name in names if name in OPS]
        assert all(found)
        assert len(found) >= len(names) - 2


@pytest.mark.slow
def test_resnet_is_close_in_half_precision() -> None:
    mod, params = resnet.get_workload(num_layers=18, image_shape=(3, 32, 32), num_classes=10)
    after = apass.run(ToMixedPrecision(), mod)
    data = np.random.default_rng(0).random((1, 3, 32, 32), "float32")
    arguments = [data, *(params[param.name_hint] for param in mod["main"].params[1:])]
    before_value, after_value = (np.asarray(evaluate(one, *arguments)) for one in (mod, after))
    np.testing.assert_allclose(after_value, before_value, atol=5e-3)
    convolutions = [node for node in post_order(after["main"]) if ops_of(node)[-1:] == ["nn.conv2d"]]
    assert all("float16" in str(node.checked_type) for node in convolutions)


def test_deep_programs_are_converted() -> None:
    body: Expr = X
    for _ in range(levels(5_000)):
        body = relu(body)
    main = apass.run(ToMixedPrecision(), IRModule.from_expr(Function([X], body)))["main"]
    assert ops_of(main).count("cast") == 1


@settings(max_examples=amount(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_float32_as_lower_precision_keeps_meaning(program: Program) -> None:
    mod, arguments = program
    try:
        after = apass.run(ToMixedPrecision("float32", 2), mod)
        half = apass.run(ToMixedPrecision("float16", 2), mod)
    except OpNotImplementedError:
        return
    ADAPTER.verify(half)
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
        evaluate(half, *arguments)
