"""Comparison of outputs: verdicts, tolerances, random inputs and workers."""

import os
import re
import sys
from collections.abc import Callable
from typing import Any

import anyio
import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from onnx import numpy_helper

from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.outputs import Evaluation, Status, Verdict, compare, compare_outputs, evaluate, random_inputs
from apass.adapters.onnx.outputs.evaluation import evaluate_with_runtime
from apass.adapters.onnx.outputs.judging import Pair, judge
from tests.helpers.onnx_models import endless, feeds, model_of, proto_of, relu, spread
from tests.helpers.rows import row

ONE = np.array([1, -2, 3, 4], np.float32)
RELU = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Relu(a) }"))
ABS = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Abs(a) }"))
RENAMED = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] y) { y = Relu(a) }"))
RANDOM = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = RandomNormalLike(a) }"))
UNKNOWN = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Rellu(a) }"))
ENDLESS = ADAPTER.dumps(endless())


def evaluation_of(*outputs: Any) -> Evaluation:
    """Return an evaluation with these outputs."""
    return Evaluation(outputs, tuple(f"y{index}" for index in range(len(outputs))))


def status(left: Any, right: Any, rtol: float | None = None, atol: float = 1e-7) -> Status:
    """Return the status of comparing two values."""
    return compare(evaluation_of(left), evaluation_of(right), None, rtol, atol).status


def array(*values: Any, dtype: Any = np.float32) -> Any:
    """Return a vector."""
    return np.array(values, dtype=dtype)


REACH = "where magnitudes reach"
ONE_SIDED = "NaN in 1 before or after only"

SAME: dict[str, Any] = {
    "numbers": array(1, 2),
    "empty": array(),
    "scalar": np.array(1.0),
    "special numbers": array(np.nan, np.inf, -np.inf),
    "booleans": array(True, False, dtype=bool),
    "strings": array("a", "", dtype=object),
    "bfloat16 numbers": array(1, 2, dtype=ml_dtypes.bfloat16),
    "int4 numbers": array(1, -2, dtype=ml_dtypes.int4),
    "complex numbers": array(1 + 2j, dtype=np.complex64),
    "sequence": [array(1), [array(2)]],
    "none": None,
}


@pytest.mark.parametrize("name", SAME)
def test_values_equal_only_their_own_kind(name: str) -> None:
    assert compare(evaluation_of(SAME[name]), evaluation_of(SAME[name])) == Verdict(Status.EQUAL)
    others = [other for key, other in SAME.items() if key != name]
    assert {status(SAME[name], other) for other in others} == {Status.DIFFERENT}


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (array(1, 2), array(1, 2.5), f"output 'y0' differs by up to 0.5 in 1 of 2 elements, {REACH} 2.5"),
        (array(1, 2), array(1), "output 'y0' is an array float32[1], expected an array float32[2]"),
        (array(1), array(1, dtype=np.float64), "output 'y0' is an array float64[1], expected an array float32[1]"),
        (array(np.nan), array(0), f"output 'y0' differs by up to inf in 1 of 1 elements ({ONE_SIDED}), {REACH} 0"),
        (array(np.inf), array(-np.inf), f"output 'y0' differs by up to inf in 1 of 1 elements, {REACH} 0"),
        (
            array(1, dtype=np.int8),
            array(2, dtype=np.int8),
            f"output 'y0' differs by up to 1 in 1 of 1 elements, {REACH} 2",
        ),
        (array("a", dtype=object), array("b", dtype=object), "output 'y0' has different strings"),
        (
            [array(1), array(2)],
            [array(1), array(3)],
            f"output 'y0[1]' differs by up to 1 in 1 of 1 elements, {REACH} 3",
        ),
        ([array(1)], [], "output 'y0' is a sequence of 0, expected a sequence of 1"),
        (None, array(1), "output 'y0' is an array float32[1], expected None"),
    ],
)
def test_difference_is_described_and_measured(left: Any, right: Any, text: str) -> None:
    verdict = compare(evaluation_of(left), evaluation_of(right))
    assert (verdict.status, verdict.reason, verdict.changed) == (Status.DIFFERENT, text, True)
    assert verdict.difference is not None
    assert verdict.difference.text == text


def test_reason_is_largest_difference_out_of_tolerance() -> None:
    left, right = (array(1000), array(1), array(5)), (array(1000.001), array(2), array(9))
    verdict = compare(evaluation_of(*left), evaluation_of(*right))
    assert verdict.reason == f"output 'y2' differs by up to 4 in 1 of 1 elements, {REACH} 9"


def test_tolerance_is_relative_to_the_largest_magnitude() -> None:
    # The sum of large terms in another order differs also where the result is close to 0.
    left = array(1000, 1e-3, np.inf, np.nan)
    assert status(left, array(1000, 2e-3, np.inf, np.nan)) is Status.EQUAL
    assert status(left, array(1000, 0.1, np.inf, np.nan)) is Status.DIFFERENT
    assert status(left, array(1000, 1e-3, 1e30, np.nan)) is Status.DIFFERENT
    assert status(left, array(1000, 1e-3, np.inf, 0)) is Status.DIFFERENT
    assert status(array(1e-3), array(2e-3)) is Status.DIFFERENT


NEAR = [
    (np.float32, 1 + 5e-6, True),
    (np.float32, 1 + 5e-5, False),
    # Within the absolute tolerance.
    (np.float64, 1 + 1e-8, True),
    (np.float64, 1 + 1e-5, False),
    (np.float16, 1.005, True),
    (np.float16, 1.05, False),
    (ml_dtypes.bfloat16, 1.008, True),
    (np.complex64, 1 + 5e-6j, True),
    (np.complex64, 1 + 5e-5j, False),
]


@pytest.mark.parametrize(("dtype", "value", "near"), NEAR)
def test_rounding_is_within_tolerance_and_reported(dtype: Any, value: Any, near: bool) -> None:
    verdict = compare(evaluation_of(array(1, dtype=dtype)), evaluation_of(array(value, dtype=dtype)))
    assert verdict.status is (Status.EQUAL if near else Status.DIFFERENT)
    assert verdict.difference is not None
    assert verdict.reason.startswith("within tolerance: output 'y0' differs by up to" if near else "output 'y0'")


def test_sign_of_zero_is_within_tolerance() -> None:
    verdict = compare(evaluation_of(array(0.0)), evaluation_of(array(-0.0)))
    assert verdict.status is Status.EQUAL
    assert verdict.difference is not None
    assert verdict.difference.amount == 0


def test_tolerances_are_arguments() -> None:
    assert status(array(1), array(1.5), rtol=0.6) is Status.EQUAL
    assert status(array(1), array(1.5), atol=0.6) is Status.EQUAL
    assert status(array(1), array(1 + 1e-6), rtol=0.0, atol=0.0) is Status.DIFFERENT
    assert status(array(1, dtype=np.int8), array(2, dtype=np.int8), atol=2.0) is Status.DIFFERENT


@given(npst.arrays(npst.floating_dtypes(endianness="<", sizes=(16, 32, 64)), npst.array_shapes()), st.data())
def test_comparison_is_symmetric(left: Any, data: st.DataObject) -> None:
    right = data.draw(npst.arrays(left.dtype, left.shape))
    verdict = compare(evaluation_of(left), evaluation_of(right), rtol=0.0)
    swapped = compare(evaluation_of(right), evaluation_of(left), rtol=0.0)
    assert (verdict.status, verdict.reason) == (swapped.status, swapped.reason)
    wide = left.astype(np.float64), right.astype(np.float64)
    # The difference of two large numbers may overflow.
    with np.errstate(all="ignore"):
        close = bool(np.isclose(*wide, rtol=0, atol=1e-7, equal_nan=True).all())
    assert (verdict.status is Status.EQUAL) == close


def test_names_of_outputs_are_compared() -> None:
    left, right = (evaluate(model, [ONE]) for model in (RELU, RENAMED))
    assert compare(left, right) == Verdict(
        Status.DIFFERENT, "the outputs are ['y'], expected ['x']", None, left.seconds + right.seconds
    )


def test_equal_wrong_outputs_are_an_evaluator_error() -> None:
    verdict = compare(evaluation_of(array(1)), evaluation_of(array(1)), [array(2)])
    assert (verdict.status, verdict.changed) == (Status.WRONG_ALIKE, False)
    assert verdict.reason == f"the evaluator is wrong: output 'y0' differs by up to 1 in 1 of 1 elements, {REACH} 2"
    assert compare(evaluation_of(array(1)), evaluation_of(array(3)), [array(2)]).status is Status.DIFFERENT
    assert (
        compare(evaluation_of(array(1)), evaluation_of(array(1)), [onnx.numpy_helper.from_array(array(1))]).status
        is Status.EQUAL
    )


def test_status_shows_which_evaluation_failed() -> None:
    failure, success = Evaluation(None, error="no reason"), evaluation_of(array(1))
    assert compare(failure, failure) == Verdict(Status.NEITHER, "no reason")
    assert compare(failure, Evaluation(None, error="other")) == Verdict(
        Status.NEITHER, "before: no reason; after: other"
    )
    assert compare(success, failure) == Verdict(Status.ONLY_BEFORE, "after: no reason")
    assert compare(failure, success) == Verdict(Status.ONLY_AFTER, "before: no reason")
    pairs = (failure, failure), (success, failure), (failure, success)
    assert [compare(*pair).changed for pair in pairs] == [False, True, False]


def test_evaluate_takes_inputs_in_order_or_by_name() -> None:
    for inputs in ([ONE], {"a": ONE}, [onnx.numpy_helper.from_array(ONE)]):
        evaluation = evaluate(RELU, inputs)
        assert evaluation.outputs is not None
        assert (evaluation.outputs[0].tolist(), evaluation.names) == ([1, 0, 3, 4], ("x",))


def test_evaluate_returns_error_as_one_line() -> None:
    assert evaluate(RELU, []).error.startswith("RuntimeError: Unable to find input 'a' in known results")
    assert "Rellu" in evaluate(UNKNOWN, [ONE]).error
    assert evaluate(b"no model", []).error.startswith("DecodeError: ")
    assert "\n" not in evaluate(UNKNOWN, [ONE]).error


def test_evaluate_suppresses_warnings() -> None:
    model = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Log(a) }"))
    evaluation = evaluate(model, [np.array([0, -1, np.inf, 1e-45], np.float32)])
    assert evaluation.outputs is not None
    assert np.isnan(evaluation.outputs[0][1])


def test_random_inputs_depend_only_on_the_seed() -> None:
    first, same, other = (random_inputs(RELU, seed) for seed in (1, 1, 2))
    assert first["a"].tolist() == same["a"].tolist()
    assert first["a"].tolist() != other["a"].tolist()


def test_random_inputs_have_the_types_of_real_models() -> None:
    for case in spread():
        defaults = set(case.model.graph.initializers)
        inputs = random_inputs(ADAPTER.dumps(case.model))
        for value in (value for value in case.model.graph.inputs if value.name not in defaults):
            array: Any = inputs[str(value.name)]
            if type(array) is list:
                continue
            assert value.dtype is not None
            assert value.shape is not None
            dtype, rank = array.dtype, array.ndim
            assert (dtype, rank) == (value.dtype.numpy(), len(value.shape)), (case.name, value.name)


def test_random_shapes_and_axes_are_valid() -> None:
    model = model_of(
        """g (float[N, K, N] a, int64[2] s, int64[1] x, int64 n, bool c, string[3] t, seq(int8[2]) q)
           => (float[M, L] r, float u, float[N, K, N] l) {
            r = Reshape(a, s)
            u = ReduceSum(a, x)
            l = Loop(n, c, a) <body = b (int64 i, bool g, float[N, K, N] v) => (bool d, float[N, K, N] w) {
                d = Identity(g) w = Neg(v)
            }>
        }"""
    )
    inputs = random_inputs(ADAPTER.dumps(model))
    assert (inputs["a"].shape, inputs["s"].tolist(), inputs["x"].tolist()) == ((2, 3, 2), [-1, 1], [0])
    assert (inputs["n"].tolist(), inputs["c"].tolist(), inputs["t"].shape) == (2, True, (3,))
    assert [(item.dtype, item.shape) for item in inputs["q"]] == [(np.int8, (2,))] * 2
    assert evaluate(ADAPTER.dumps(model), inputs).error == ""


def test_random_inputs_names_input_of_unsupported_type() -> None:
    proto = proto_of("g (float[4] a) => (float[4] x) { x = Relu(a) }")
    proto.graph.input[0].type.map_type.key_type = onnx.TensorProto.INT64
    with pytest.raises(ValueError, match="cannot create a random value for input 'a' of type map_type"):
        random_inputs(proto.SerializeToString())


@pytest.mark.parametrize("dims", ["9000000000, 0, 9000000000", "1000000, 1000000"])
def test_random_inputs_rejects_huge_shapes(dims: str) -> None:
    model = ADAPTER.dumps(model_of(f"g (float[{dims}] a) => (float[M] x) {{ x = Relu(a) }}"))
    with pytest.raises(ValueError, match=r"input 'a' has the shape \[.*\], expected at most 268,435,456 elements"):
        random_inputs(model)


class KillsWorker:
    """Ends the worker process that unpickles it."""

    def __reduce__(self) -> tuple[Callable[[int], Any], tuple[int]]:
        return os._exit, (3,)


CASES: dict[str, tuple[bytes, bytes, Any, Status, str]] = {
    "equal": (RELU, RELU, [ONE], Status.EQUAL, ""),
    "different": (RELU, ABS, [ONE], Status.DIFFERENT, "output 'x' differs by up to 2 in 1 of 4 elements"),
    "random and unchanged": (RANDOM, RANDOM, None, Status.EQUAL, ""),
    "neither": (UNKNOWN, UNKNOWN, [ONE], Status.NEITHER, "Rellu"),
    "only before": (RELU, UNKNOWN, [ONE], Status.ONLY_BEFORE, "after: "),
    "only after": (UNKNOWN, RELU, [ONE], Status.ONLY_AFTER, "before: "),
    "no model": (b"none", RELU, None, Status.NEITHER, "cannot create inputs"),
    "dies": (RELU, ABS, [KillsWorker()], Status.NEITHER, "the worker process died"),
}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_models_are_evaluated_concurrently_in_workers() -> None:
    verdicts: dict[str, Verdict] = {}

    async def judge(name: str, before: Any, after: Any, inputs: Any) -> None:
        verdicts[name] = await compare_outputs(before, after, inputs, engines=("reference",))

    async with anyio.create_task_group() as group:
        for name, (before, after, inputs, _, _) in CASES.items():
            group.start_soon(judge, name, before, after, inputs)
        group.start_soon(judge, "models", relu(), relu(), None)
        group.start_soon(judge, "changed and random", RANDOM, ADAPTER.dumps(model_of(OTHER_RANDOM)), None)
    for name, (_, _, _, expected, reason) in CASES.items():
        verdict = verdicts[name]
        assert verdict.status is expected, (name, verdict)
        assert reason in verdict.reason, (name, verdict)
    assert (verdicts["models"].status, verdicts["changed and random"].status) == (Status.EQUAL, Status.RANDOM)


OTHER_RANDOM = "other (float[4] a) => (float[4] x) { x = RandomNormalLike(a) }"


@pytest.mark.process
@pytest.mark.anyio
async def test_result_that_onnxruntime_rejects_is_changed() -> None:
    # The reference evaluator ignores the attribute, and its outputs are equal.
    invalid = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Relu <foo = 1> (a) }"))
    assert evaluate(invalid, [ONE]).outputs is not None
    verdict = await compare_outputs(RELU, invalid)
    assert verdict.status is Status.ONLY_BEFORE
    assert "Unrecognized attribute: foo" in verdict.reason
    assert verdict.comparison.changed
    # onnxruntime lacks a kernel: the model is valid, and the reference evaluator decides.
    kept, other = (
        ADAPTER.dumps(model_of(f"g (uint16[4] a) => (uint16[4] x) {{ x = {op} }}")) for op in ("Identity(a)", "Max(a)")
    )
    assert "NOT_IMPLEMENTED" in evaluate_with_runtime(other, [np.ones(4, np.uint16)]).error
    assert (await compare_outputs(kept, other)).status is Status.EQUAL


@pytest.mark.process
@pytest.mark.anyio
async def test_lost_input_is_changed() -> None:
    both = ADAPTER.dumps(model_of("g (float[4] a, float[2] n) => (float[4] x) { x = Relu(a) }"))
    verdict = await compare_outputs(both, RELU)
    assert (verdict.status, verdict.reason) == (Status.DIFFERENT, "the model after has no input 'n'")
    # An input with a default may become a constant.
    default = onnx.ModelProto.FromString(both)
    default.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "n"))
    assert (await compare_outputs(default.SerializeToString(), RELU)).status is Status.EQUAL


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.anyio
async def test_exhausted_memory_is_no_verdict() -> None:
    small, huge = (
        ADAPTER.dumps(
            model_of(
                f"g (float[4] a) => (float x) <int64[2] s = {{{size}, {size}}}> "
                "{ z = ConstantOfShape(s) m = ReduceMax(z) n = ReduceSum(a) x = Add(m, n) }"
            )
        )
        for size in (2, 200_000)
    )
    for before, after, name in ((small, huge, "after"), (huge, small, "before")):
        verdict = await compare_outputs(before, after)
        assert verdict.status is Status.LIMITED
        assert re.match(f"{name}: .*allocate", verdict.reason)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_time_limit_ends_an_evaluation() -> None:
    limiter = anyio.CapacityLimiter(1)
    verdict = await compare_outputs(RELU, ENDLESS, [ONE], time_limit=2.0, limiter=limiter)
    assert (verdict.status, verdict.reason) == (Status.LIMITED, "after: the evaluation took longer than 2 s")
    verdict = await compare_outputs(ENDLESS, RELU, [ONE], time_limit=2.0, limiter=limiter)
    assert (verdict.status, verdict.reason) == (Status.LIMITED, "before: the evaluation took longer than 2 s")
    assert limiter.borrowed_tokens == 0
    assert (await compare_outputs(RELU, RELU, [ONE], limiter=limiter)).status is Status.EQUAL


def test_operator_that_the_reference_lacks_is_no_difference() -> None:
    lacking = Evaluation(None, error="NOT_IMPLEMENTED")
    pair = Pair(RELU, ADAPTER.dumps(relu()), None, None, None, 1e-7, 0, ("onnxruntime", "reference"))
    for step in (("onnxruntime", "before"), ("onnxruntime", "after")):
        pair.lost[step] = lacking
    pair.lost["reference", "after"] = Evaluation(None, error="NotImplementedError: no such operator")
    assert judge(pair, lambda step: None).status is Status.NEITHER


def test_limit_of_the_next_engine_keeps_a_difference() -> None:
    other = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Abs(a) }"))
    limited = Evaluation(None, error="the evaluation took longer than 2 s", is_limited=True)
    pair = Pair(RELU, other, None, None, None, 1e-7, 0, ("onnxruntime", "reference"))
    pair.lost["reference", "before"] = limited
    assert judge(pair, lambda step: None).status is Status.DIFFERENT


@pytest.mark.process
@pytest.mark.anyio
async def test_corpus_models_have_their_expected_outputs() -> None:
    for case in [case for case in spread() if case.data[0][1]][::8]:
        verdict = await compare_outputs(case.model, case.model, feeds(case), expected=case.data[0][1], rtol=case.rtol)
        assert verdict.status in (Status.EQUAL, Status.WRONG_ALIKE, Status.NEITHER), (case.name, verdict)


def judged(before: str, after: str) -> Verdict:
    """Return the verdict on two models with random inputs."""
    first, second = (
        proto_of(f"g (float[4] x) => (float[4] y) <float[1] c = {{50}}> {{ {nodes} }}").SerializeToString()
        for nodes in (before, after)
    )
    return judge(Pair(first, second, None, None, None, 1e-7, 0, ["reference"]), lambda step: None)


def test_other_inputs_are_tried_if_outputs_show_little() -> None:
    # With numbers around 0, both outputs are 0 everywhere.
    verdict = judged("a = Sub(x, c) y = Relu(a)", "a = Sub(x, c) b = Add(a, a) y = Relu(b)")
    assert verdict.status is Status.DIFFERENT
    assert verdict.reason.startswith("with large inputs, output 'y' differs by up to ")
    equal = judged("a = Sub(x, c) y = Relu(a)", "a = Sub(x, c) b = Neg(a) d = Neg(b) y = Relu(d)")
    assert (equal.status, equal.reason) == (Status.EQUAL, "")


def test_outputs_that_never_vary_show_little() -> None:
    rows = {
        "a = Sub(x, x) y = Exp(a)": "has the same value 1 in all elements",
        "a = Sub(x, x) y = Div(a, a)": "has the same value nan in all elements",
        "y = Identity(x)": "",
    }
    for nodes, reason in rows.items():
        with row(nodes):
            verdict = judged(nodes, f"{nodes.replace('y =', 'z =')} y = Identity(z)")
            assert verdict.status is Status.EQUAL
            assert verdict.reason == (f"output 'y' {reason}, which shows little" if reason else "")
