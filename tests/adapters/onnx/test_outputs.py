"""Evaluating models before and after: verdicts, tolerances, random inputs, and workers that fail or take too long."""

import os
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

from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.outputs import (
    Evaluation,
    Status,
    Verdict,
    compare,
    compare_outputs,
    evaluate,
    random_inputs,
)
from tests.adapters.onnx.models import feeds, model_of, proto_of, relu, spread

ONE = np.array([1, -2, 3, 4], np.float32)
RELU = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Relu(a) }"))
ABS = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Abs(a) }"))
RENAMED = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] y) { y = Relu(a) }"))
RANDOM = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = RandomNormalLike(a) }"))
UNKNOWN = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Rellu(a) }"))
ENDLESS = ADAPTER.dumps(
    model_of(
        """g (float[4] a) => (float[4] x) {
            n = Constant <value_int: int = 1000000000> ()
            t = Constant <value: tensor = bool {1}> ()
            x = Loop(n, t, a) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
                d = Identity(c) w = Abs(v)
            }>
        }"""
    )
)


def got(*outputs: Any) -> Evaluation:
    return Evaluation(outputs, tuple(f"y{index}" for index in range(len(outputs))))


def status(left: Any, right: Any, rtol: float | None = None, atol: float = 1e-7) -> Status:
    return compare(got(left), got(right), None, rtol, atol).status


def array(*values: Any, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype=dtype)


SAME: dict[str, Any] = {
    "numbers": array(1, 2),
    "no numbers": array(),
    "a number": np.array(1.0),
    "not a number": array(np.nan, np.inf, -np.inf),
    "truths": array(True, False, dtype=bool),
    "texts": array("a", "", dtype=object),
    "numbers of few bits": array(1, 2, dtype=ml_dtypes.bfloat16),
    "integers of few bits": array(1, -2, dtype=ml_dtypes.int4),
    "complex numbers": array(1 + 2j, dtype=np.complex64),
    "a sequence": [array(1), [array(2)]],
    "nothing": None,
}


@pytest.mark.parametrize("name", SAME)
def test_a_value_is_equal_to_itself_and_to_no_other_kind(name: str) -> None:
    assert compare(got(SAME[name]), got(SAME[name])) == Verdict(Status.EQUAL)
    others = [other for key, other in SAME.items() if key != name]
    assert {status(SAME[name], other) for other in others} == {Status.DIFFERENT}


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (array(1, 2), array(1, 2.5), "output 'y0' differs by up to 0.5 in 1 of 2 elements"),
        (array(1, 2), array(1), "output 'y0' is an array float32[1], not an array float32[2]"),
        (array(1), array(1, dtype=np.float64), "output 'y0' is an array float64[1], not an array float32[1]"),
        (array(np.nan), array(0), "output 'y0' differs by up to inf in 1 of 1 elements"),
        (array(np.inf), array(-np.inf), "output 'y0' differs by up to inf in 1 of 1 elements"),
        (array(1, dtype=np.int8), array(2, dtype=np.int8), "output 'y0' differs by up to 1 in 1 of 1 elements"),
        (array("a", dtype=object), array("b", dtype=object), "output 'y0' has other texts"),
        ([array(1), array(2)], [array(1), array(3)], "output 'y0[1]' differs by up to 1 in 1 of 1 elements"),
        ([array(1)], [], "output 'y0' is a sequence of 0, not a sequence of 1"),
        (None, array(1), "output 'y0' is an array float32[1], not nothing"),
    ],
)
def test_a_difference_is_named_and_measured(left: Any, right: Any, text: str) -> None:
    verdict = compare(got(left), got(right))
    assert (verdict.status, verdict.reason, verdict.changed) == (Status.DIFFERENT, text, True)
    assert verdict.difference is not None
    assert verdict.difference.text == text


def test_the_biggest_difference_out_of_tolerance_is_told() -> None:
    left, right = (array(1000), array(1), array(5)), (array(1000.001), array(2), array(9))
    verdict = compare(got(*left), got(*right))
    assert verdict.reason == "output 'y2' differs by up to 4 in 1 of 1 elements"


NEAR = [
    (np.float32, 1 + 5e-6, True),
    (np.float32, 1 + 5e-5, False),
    (np.float64, 1 + 1e-8, True),  # within the absolute tolerance
    (np.float64, 1 + 1e-5, False),
    (np.float16, 1.005, True),
    (np.float16, 1.05, False),
    (ml_dtypes.bfloat16, 1.008, True),
    (np.complex64, 1 + 5e-6j, True),
    (np.complex64, 1 + 5e-5j, False),
]


@pytest.mark.parametrize(("dtype", "value", "near"), NEAR)
def test_rounding_is_within_tolerance_and_still_told(dtype: Any, value: Any, near: bool) -> None:
    verdict = compare(got(array(1, dtype=dtype)), got(array(value, dtype=dtype)))
    assert verdict.status is (Status.EQUAL if near else Status.DIFFERENT)
    assert verdict.difference is not None
    assert verdict.reason.startswith("within tolerance: output 'y0' differs by up to" if near else "output 'y0'")


def test_the_sign_of_a_zero_is_a_difference_within_tolerance() -> None:
    verdict = compare(got(array(0.0)), got(array(-0.0)))
    assert verdict.status is Status.EQUAL
    assert verdict.difference is not None
    assert verdict.difference.amount == 0


def test_tolerances_can_be_given() -> None:
    assert status(array(1), array(1.5), rtol=0.6) is Status.EQUAL
    assert status(array(1), array(1.5), atol=0.6) is Status.EQUAL
    assert status(array(1), array(1 + 1e-6), rtol=0.0, atol=0.0) is Status.DIFFERENT
    assert status(array(1, dtype=np.int8), array(2, dtype=np.int8), atol=2.0) is Status.DIFFERENT


@given(npst.arrays(npst.floating_dtypes(endianness="<", sizes=(16, 32, 64)), npst.array_shapes()), st.data())
def test_a_comparison_is_the_same_both_ways_round(one: Any, data: st.DataObject) -> None:
    other = data.draw(npst.arrays(one.dtype, one.shape))
    there, back = compare(got(one), got(other), rtol=0.0), compare(got(other), got(one), rtol=0.0)
    assert (there.status, there.reason) == (back.status, back.reason)
    wide = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):  # the difference of two huge numbers may be more than a number holds
        close = bool(np.isclose(*wide, rtol=0, atol=1e-7, equal_nan=True).all())
    assert (there.status is Status.EQUAL) == close


def test_names_of_outputs_count() -> None:
    left, right = (evaluate(model, [ONE]) for model in (RELU, RENAMED))
    assert compare(left, right) == Verdict(
        Status.DIFFERENT, "the outputs are ['y'], not ['x']", None, left.seconds + right.seconds
    )


def test_outputs_that_are_wrong_alike_are_the_evaluators_fault() -> None:
    verdict = compare(got(array(1)), got(array(1)), [array(2)])
    assert (verdict.status, verdict.changed) == (Status.WRONG_ALIKE, False)
    assert verdict.reason == "the evaluator is wrong: output 'y0' differs by up to 1 in 1 of 1 elements"
    assert compare(got(array(1)), got(array(3)), [array(2)]).status is Status.DIFFERENT
    assert compare(got(array(1)), got(array(1)), [onnx.numpy_helper.from_array(array(1))]).status is Status.EQUAL


def test_models_that_cannot_be_evaluated_are_told_apart() -> None:
    no, yes = Evaluation(None, error="no reason"), got(array(1))
    assert compare(no, no) == Verdict(Status.NEITHER, "no reason")
    assert compare(no, Evaluation(None, error="other")) == Verdict(Status.NEITHER, "before: no reason; after: other")
    assert compare(yes, no) == Verdict(Status.ONLY_BEFORE, "after: no reason")
    assert compare(no, yes) == Verdict(Status.ONLY_AFTER, "before: no reason")
    assert [compare(*pair).changed for pair in ((no, no), (yes, no), (no, yes))] == [False, True, False]


def test_evaluate_takes_inputs_in_order_and_by_name() -> None:
    for inputs in ([ONE], {"a": ONE}, [onnx.numpy_helper.from_array(ONE)]):
        evaluation = evaluate(RELU, inputs)
        assert evaluation.outputs is not None
        assert (evaluation.outputs[0].tolist(), evaluation.names) == ([1, 0, 3, 4], ("x",))


def test_evaluate_says_what_went_wrong_in_one_line() -> None:
    assert evaluate(RELU, []).error.startswith("RuntimeError: Unable to find input 'a' in known results")
    assert "Rellu" in evaluate(UNKNOWN, [ONE]).error
    assert evaluate(b"no model", []).error.startswith("DecodeError: ")
    assert "\n" not in evaluate(UNKNOWN, [ONE]).error


def test_evaluate_lets_no_warning_out() -> None:
    model = ADAPTER.dumps(model_of("g (float[4] a) => (float[4] x) { x = Log(a) }"))
    evaluation = evaluate(model, [np.array([0, -1, np.inf, 1e-45], np.float32)])
    assert evaluation.outputs is not None
    assert np.isnan(evaluation.outputs[0][1])


def test_random_inputs_are_the_same_for_the_same_seed() -> None:
    one, again, other = (random_inputs(RELU, seed) for seed in (1, 1, 2))
    assert one["a"].tolist() == again["a"].tolist()
    assert one["a"].tolist() != other["a"].tolist()


def test_random_inputs_fit_the_types_of_real_models() -> None:
    for case in spread():
        known = set(case.model.graph.initializers)
        inputs = random_inputs(ADAPTER.dumps(case.model))
        for value in (value for value in case.model.graph.inputs if value.name not in known):
            made: Any = inputs[str(value.name)]
            if type(made) is list:
                continue
            assert value.dtype is not None
            assert value.shape is not None
            dtype, rank = made.dtype, made.ndim
            assert (dtype, rank) == (value.dtype.numpy(), len(value.shape)), (case.name, value.name)


def test_random_inputs_are_what_operators_take_for_shapes_and_axes() -> None:
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
    made = random_inputs(ADAPTER.dumps(model))
    assert (made["a"].shape, made["s"].tolist(), made["x"].tolist()) == ((2, 3, 2), [-1, 1], [0])
    assert (made["n"].tolist(), made["c"].tolist(), made["t"].shape) == (2, True, (3,))
    assert [(one.dtype, one.shape) for one in made["q"]] == [(np.int8, (2,))] * 2
    assert evaluate(ADAPTER.dumps(model), made).error == ""


def test_an_input_that_none_can_be_made_for_is_named() -> None:
    proto = proto_of("g (float[4] a) => (float[4] x) { x = Relu(a) }")
    proto.graph.input[0].type.map_type.key_type = onnx.TensorProto.INT64
    with pytest.raises(ValueError, match="input 'a' is of a type that none can be made for: map_type"):
        random_inputs(proto.SerializeToString())


class Dies:
    """Ends the process that it is sent to."""

    def __reduce__(self) -> tuple[Callable[[int], Any], tuple[int]]:
        return os._exit, (3,)


CASES: dict[str, tuple[bytes, bytes, Any, Status, str]] = {
    "equal": (RELU, RELU, [ONE], Status.EQUAL, ""),
    "different": (RELU, ABS, [ONE], Status.DIFFERENT, "output 'x' differs by up to 2 in 1 of 4 elements"),
    "random, and as it was": (RANDOM, RANDOM, None, Status.EQUAL, ""),
    "neither": (UNKNOWN, UNKNOWN, [ONE], Status.NEITHER, "Rellu"),
    "only before": (RELU, UNKNOWN, [ONE], Status.ONLY_BEFORE, "after: "),
    "only after": (UNKNOWN, RELU, [ONE], Status.ONLY_AFTER, "before: "),
    "no model": (b"none", RELU, None, Status.NEITHER, "no inputs could be made"),
    "dies": (RELU, ABS, [Dies()], Status.NEITHER, "the worker process died"),
}


@pytest.mark.anyio
async def test_models_are_evaluated_in_worker_processes_many_at_once() -> None:
    found: dict[str, Verdict] = {}

    async def judge(name: str, before: Any, after: Any, inputs: Any) -> None:
        found[name] = await compare_outputs(before, after, inputs)

    async with anyio.create_task_group() as group:
        for name, (before, after, inputs, _, _) in CASES.items():
            group.start_soon(judge, name, before, after, inputs)
        group.start_soon(judge, "models", relu(), relu(), None)
        group.start_soon(judge, "really random", RANDOM, ADAPTER.dumps(model_of(OTHER_RANDOM)), None)
    for name, (_, _, _, wanted, reason) in CASES.items():
        verdict = found[name]
        assert verdict.status is wanted, (name, verdict)
        assert reason in verdict.reason, (name, verdict)
    assert (found["models"].status, found["really random"].status) == (Status.EQUAL, Status.RANDOM)


OTHER_RANDOM = "other (float[4] a) => (float[4] x) { x = RandomNormalLike(a) }"


@pytest.mark.anyio
async def test_an_evaluation_that_takes_too_long_is_ended_and_told() -> None:
    limiter = anyio.CapacityLimiter(1)
    verdict = await compare_outputs(RELU, ENDLESS, [ONE], time_limit=5.0, limiter=limiter)
    assert (verdict.status, verdict.reason) == (Status.ONLY_BEFORE, "after: it took longer than 5 s")
    assert limiter.borrowed_tokens == 0
    assert (await compare_outputs(RELU, RELU, [ONE], limiter=limiter)).status is Status.EQUAL


@pytest.mark.anyio
async def test_models_of_the_corpus_mean_what_they_say() -> None:
    chosen = [case for case in spread() if case.data[0][1]][::8]
    for case in chosen:
        verdict = await compare_outputs(case.model, case.model, feeds(case), expected=case.data[0][1], rtol=case.rtol)
        assert verdict.status in (Status.EQUAL, Status.WRONG_ALIKE, Status.NEITHER), (case.name, verdict)
