"""Inputs found by trial: sizes from constraints, and branches of If nodes."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

import apass
from apass.adapters.onnx import ADAPTER, model_proto
from apass.adapters.onnx.outputs import Status, Verdict, compare_outputs, random_inputs
from apass.adapters.onnx.outputs.branches import Conditions
from apass.adapters.onnx.outputs.input_sizes import candidate_sizes
from apass.adapters.onnx.outputs.inputs import declared_inputs
from apass.adapters.onnx.outputs.judging import Pair, judge
from tests.helpers.onnx_models import model_of, proto_of
from tests.helpers.rows import row


def judged(before: onnx.ModelProto, after: onnx.ModelProto | None = None, **options: Any) -> Verdict:
    """Return onnxruntime's verdict on two models, by default the same model twice."""
    first = before.SerializeToString()
    # The name of a producer makes them two models with the same meaning.
    other = onnx.ModelProto.FromString(first)
    other.producer_name = "other"
    second = (after or other).SerializeToString()
    return judge(Pair(first, second, None, None, None, 1e-7, 0, ["onnxruntime"], **options), lambda step: None)


def with_shape(model: onnx.ModelProto, *shape: int | str | None) -> onnx.ModelProto:
    """Return the model with another shape of its first input; None is no value."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    del dims[:]
    for size in shape:
        dim = dims.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif size is not None:
            dim.dim_param = size
    return model


CONV = """g (float[N,C,H,W] x) => (float[a,b,c,d] y) <float[4,3,5,5] w = {BIG}>
    { p = Conv(x, w) q = MaxPool<kernel_shape=[8,8], strides=[8,8]>(p) y = GlobalAveragePool(q) }"""
"""An image of at least 12 times 12 pixels with three channels."""


def conv() -> onnx.ModelProto:
    """Return the model `CONV` with its weights."""
    return proto_of(CONV.replace("BIG", ",".join(["0.5"] * 300)))


def test_model_with_any_dynamic_shape_is_evaluated() -> None:
    for shape in (("N", "C", "H", "W"), (-1, 3, -1, -1), (-1, 3, 0, 0), (None,) * 4, (1, 3, "s", "s")):
        with row(shape):
            assert judged(with_shape(conv(), *shape)).status is Status.EQUAL


def test_declared_sizes_are_used_first() -> None:
    infos = declared_inputs(model := proto_of("g (float[2,N] x, float[N,M] y) => (float[a,b] z) { z = MatMul(x, y) }"))
    assert next(candidate_sizes(model, infos)) == {"N": 2, "M": 3}
    empty = proto_of("g (float[0,3] x) => (float[a,b] z) { z = Relu(x) }")
    sizes = candidate_sizes(empty, declared_inputs(empty))
    assert [next(sizes), next(sizes)] == [{"x[0]": 2}, {"x[0]": 0}]


CONSTRAINTS = {
    "y = MatMul(x, w)": (("N", "K"), {"K": 7}),
    "t = Transpose<perm=[1,0]>(x) y = MatMul(t, w)": (("K", "N"), {"K": 7}),
    "y = Gemm<transA=1>(x, w)": (("K", "N"), {"K": 7}),
    "p = Relu(x) y = Add(p, v)": (("N", "K"), {"K": 5}),
    "p = Unsqueeze(x, zero) y = Conv(p, k)": (("C", "L"), {"C": 6}),
    "a = Relu(x) y = LayerNormalization(a, v)": (("N", "K"), {"K": 5}),
}
"""Nodes, with the shape of `x` and the sizes that they require."""


def test_operators_determine_sizes() -> None:
    zeros = {name: ",".join(["1"] * count) for name, count in {"w": 14, "v": 5, "k": 36}.items()}
    constants = ", ".join(
        [
            f"float[7,2] w = {{{zeros['w']}}}",
            f"float[5] v = {{{zeros['v']}}}",
            f"float[2,6,3] k = {{{zeros['k']}}}",
            "int64[1] zero = {0}",
        ]
    )
    for nodes, (shape, expected) in CONSTRAINTS.items():
        with row(nodes):
            model = proto_of(f"g (float[{','.join(shape)}] x) => (float y) <{constants}> {{ {nodes} }}")
            _, second, *_ = candidate_sizes(model, declared_inputs(model))
            assert {label: second[label] for label in expected} == expected


def test_sizes_tied_by_an_lstm_are_equal() -> None:
    ones = ",".join(["1"] * 24), ",".join(["1"] * 16)
    weights = f"float[1,8,3] w = {{{ones[0]}}}, float[1,8,2] r = {{{ones[1]}}}"
    model = proto_of(
        f"g (float[T,B,I] x, float[1,D,H] h, float[1,E,H] c) => (float y) <{weights}> "
        "{ y = LSTM<hidden_size=2>(x, w, r, , , h, c) }"
    )
    _, second, *_ = candidate_sizes(model, declared_inputs(model))
    assert (second["I"], second["H"]) == (3, 2)
    assert second["B"] == second["D"] == second["E"] != second["T"]
    assert judged(model).status is Status.EQUAL


def test_narrow_integers_are_indices_if_others_fail() -> None:
    model = proto_of("g (uint8[N] x) => (float[a] y) <float[2] t = {1, 2}> { i = Cast<to=7>(x) y = Gather(t, i) }")
    assert judged(model).status is Status.EQUAL


def test_inputs_without_a_fit_are_named() -> None:
    model = proto_of("g (float[N] x) => (float[a] y) <int64[1] s = {-5}> { y = Expand(x, s) }")
    verdict = judged(model)
    assert verdict.status is Status.NEITHER
    assert "Expand" in verdict.reason


def test_given_shapes_replace_the_declared_ones() -> None:
    model = proto_of("g (float[N,M] x) => (float[a] y) { y = ReduceSum<keepdims=0>(x) }")
    assert random_inputs(model, shapes={"x": (5, 6)})["x"].shape == (5, 6)
    with pytest.raises(ValueError, match=r"the shape \[5\] is given for input 'x', expected 2 dimensions"):
        random_inputs(model, shapes={"x": (5,)})
    with pytest.raises(ValueError, match=r"given for 'z', which is no input of the model; its inputs: 'x'"):
        random_inputs(model, shapes={"z": (5,)})


@pytest.mark.process
@pytest.mark.anyio
async def test_wrong_shapes_are_an_error_of_the_caller() -> None:
    model = model_of("g (float[N,M] x) => (float[a,b] y) { y = Relu(x) }")
    with pytest.raises(ValueError, match="expected 2 dimensions"):
        await compare_outputs(model, model, shapes={"x": (5,)})


RATES = """g (float[N] x, int64 rate) => (float[a] y) <int64 fast = {{16000}}> {{
    is_fast = Equal(rate, fast)
    y = If(is_fast) <then_branch = t () => (a) {{ a = {then}(x) }}, else_branch = e () => (b) {{ b = {other}(x) }}>
}}"""
"""A model with a branch for one sample rate."""


def test_both_branches_are_compared() -> None:
    before = proto_of(RATES.format(then="Abs", other="Relu"))
    equal = judged(before)
    assert (equal.status, equal.reason) == (Status.EQUAL, "")
    then = judged(before, proto_of(RATES.format(then="Neg", other="Relu")))
    assert then.status is Status.DIFFERENT
    assert then.reason.startswith("with rate=16000, output 'y' differs")
    other = judged(before, proto_of(RATES.format(then="Abs", other="Neg")))
    assert other.status is Status.DIFFERENT


def test_branch_that_no_input_reaches_is_named() -> None:
    never = """g (float[N] x, int64 rate) => (float[a] y) <int64 limit = {9}> {
        wide = Mul(rate, rate) is_negative = Less(wide, rate) both = And(is_negative, is_negative)
        y = If(both) <then_branch = t () => (a) { a = Abs(x) }, else_branch = e () => (b) { b = Relu(x) }>
    }"""
    verdict = judged(proto_of(never))
    assert verdict.status is Status.EQUAL
    assert verdict.reason == "no input was found that reaches the then branch of 'y'"


def test_conditions_read_the_constants_of_their_part() -> None:
    conditions = Conditions(proto_of(RATES.format(then="Abs", other="Relu")))
    inputs = {"x": np.ones(2, np.float32), "rate": np.array(0)}
    assert conditions.count == 1
    assert conditions.reached(inputs) == {(0, False)}
    attempts = [attempt["rate"].item() for attempt in conditions.attempts(inputs)]
    assert attempts[:3] == [0, 1, 16000]
    assert conditions.missing(frozenset({(0, False)})) == "the then branch of 'y'"


@pytest.mark.process
@pytest.mark.anyio
async def test_comparison_has_one_of_three_words() -> None:
    relu = model_of("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    same = model_of("h (float[4] x) => (float[4] y) { a = Relu(x) y = Identity(a) }")
    other = model_of("g (float[4] x) => (float[4] y) { y = Neg(x) }")
    unknown = ADAPTER.dumps(model_of("g (float[4] x) => (float[4] y) { y = Rellu(x) }"))
    rows: list[tuple[Any, Any, bool | None, str]] = [
        (relu, same, False, "outputs equal"),
        (relu, other, True, "outputs changed: output 'y' differs"),
        (unknown, unknown, None, "outputs not verified: evaluated neither before nor after: "),
    ]
    for before, after, changed, text in rows:
        with row(text):
            comparison = (await compare_outputs(before, after)).comparison
            assert comparison.changed is changed
            assert comparison.text.startswith(text)


AMPLIFIED = """g (float[1,3,8,8] x) => (float y) <
    float[1,3,3,3] w = {WEIGHTS}, float[1] s = {1.7}, float[1] t = {0.3}, float[1] m = {0.2}, float[1] v = {0.9},
    float big = {100}
> { c = Conv(x, w) n = BatchNormalization(c, s, t, m, v) a = Mul(n, big) b = Floor(a) y = Sub(a, b) }"""
"""A model that drops the leading digits, so that last digits become large."""


def test_rounding_like_that_of_onnxruntime_is_equal() -> None:
    weights = ",".join(f"{0.1 * (index % 7) + 0.01:g}" for index in range(27))
    before = proto_of(AMPLIFIED.replace("WEIGHTS", weights))
    fused = apass.run(apass.get_pass("onnx.FuseNodes"), ir.from_proto(before), context=apass.PassContext(opt_level=3))
    verdict = judged(before, model_proto(fused))
    assert verdict.status is Status.EQUAL
    assert verdict.reason.startswith("within the rounding of onnxruntime's own optimizations: output 'y' differs")
    # Without the fusion, onnxruntime has nothing to round.
    plain = proto_of(
        AMPLIFIED.replace("WEIGHTS", weights).replace("n = BatchNormalization(c, s, t, m, v)", "n = Abs(c)")
    )
    moved = proto_of(
        AMPLIFIED.replace("WEIGHTS", weights).replace("n = BatchNormalization(c, s, t, m, v)", "n = Abs(c)")
    )
    weights_of = moved.graph.initializer[0]
    weights_of.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights_of) + np.float32(1e-4), weights_of.name))
    assert judged(plain, moved).status is Status.DIFFERENT
