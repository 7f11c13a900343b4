"""Results of operators in cases that ONNX's node cases do not cover."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tests.relay.frontend.models import Numbers, evaluate_model, model, reference

Floats = npt.NDArray[np.float32]


def random_array(*shape: int, seed: int = 0) -> Floats:
    """Return random numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3,), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3,)),
        ((2, 3), (3, 4)),
        ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (3,)),
        ((3,), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)),
        ((1, 2, 3), (5, 3, 4)),
        ((6, 1, 2, 3), (5, 3, 4)),
        ((2, 3), (6, 5, 3, 4)),
        ((6, 5, 2, 3), (6, 1, 3, 4)),
    ],
    ids=str,
)
def test_matmul_equals_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    proto = model(f"g (float{list(left)} a, float{list(right)} b) => (float[K] y) {{ y = MatMul(a, b) }}")
    a, b = random_array(*left), random_array(*right, seed=1)
    (result,) = evaluate_model(proto, a, b)
    assert result.shape == np.matmul(a, b).shape
    np.testing.assert_allclose(result, np.matmul(a, b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attributes", ["", "transA = 1", "transB = 1", "transA = 1, transB = 1", "alpha = 2.0, beta = 0.5"]
)
@pytest.mark.parametrize("bias", ["", ", c"])
def test_gemm_equals_reference(attributes: str, bias: str) -> None:
    a = random_array(*((3, 2) if "transA" in attributes else (2, 3)))
    b = random_array(*((4, 3) if "transB" in attributes else (3, 4)), seed=1)
    proto = model(
        f"g (float{list(a.shape)} a, float{list(b.shape)} b, float[4] c) => (float[2, 4] y) "
        f"{{ y = Gemm<{attributes}>(a, b{bias}) }}".replace("<>", "")
    )
    inputs = a, b, random_array(4, seed=2)
    np.testing.assert_allclose(evaluate_model(proto, *inputs)[0], reference(proto, *inputs)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_lrn_sums_nearest_channels(size: int) -> None:
    proto = model(f"g (float[2, 6, 2, 2] x) => (float[K] y) {{ y = LRN<size = {size}, alpha = 0.5, bias = 2.0>(x) }}")
    data = random_array(2, 6, 2, 2)
    total = np.zeros_like(data)
    for channel in range(6):
        first, last = max(0, channel - (size - 1) // 2), min(5, channel + -(-(size - 1) // 2))
        total[:, channel] = (data[:, first : last + 1] ** 2).sum(axis=1)
    np.testing.assert_allclose(evaluate_model(proto, data)[0], data / (2 + 0.5 / size * total) ** 0.75, rtol=1e-5)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    kind: str, x: Floats, direction: str = "forward", more: str = "", lengths: Numbers | None = None
) -> list[Numbers]:
    """Return the outputs of a recurrent layer of 3 neurons.

    The weights are random, and equal for both directions.
    """
    directions, rows = 2 if direction == "bidirectional" else 1, 3 * GATES[kind]
    shapes = {
        "x": x.shape,
        "w": (directions, rows, x.shape[-1]),
        "r": (directions, rows, 3),
        "b": (directions, 2 * rows),
    }
    declared = ", ".join(f"float{list(shape)} {name}" for name, shape in shapes.items())
    weights = [
        np.repeat(random_array(1, *shapes[name][1:], seed=seed), directions, axis=0)
        for seed, name in enumerate("wrb", 1)
    ]
    state = ", float[K] c" if kind == "LSTM" else ""
    names = "y, h, c" if kind == "LSTM" else "y, h"
    listed, last = ("", "") if lengths is None else (f", int32[{len(lengths)}] n", ", n")
    node = f'{kind}<hidden_size = 3, direction = "{direction}"{more}>(x, w, r, b{last})'
    proto = model(f"g ({declared}{listed}) => (float[K] y, float[K] h{state}) {{ {names} = {node} }}", opset=14)
    return evaluate_model(proto, x, *weights, *([] if lengths is None else [lengths]))


@pytest.mark.parametrize("kind", GATES)
def test_reverse_layer_equals_forward_on_reversed_sequence(kind: str) -> None:
    x = random_array(4, 2, 5)
    forward, reverse = recurrent(kind, x[::-1].copy()), recurrent(kind, x, "reverse")
    np.testing.assert_allclose(reverse[0], forward[0][::-1], rtol=1e-5)
    np.testing.assert_allclose(reverse[1], forward[1], rtol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_bidirectional_layer_concatenates_forward_and_reverse(kind: str) -> None:
    x = random_array(4, 2, 5)
    both, forward, reverse = (recurrent(kind, x, direction) for direction in ("bidirectional", "forward", "reverse"))
    np.testing.assert_allclose(both[0], np.concatenate([forward[0], reverse[0]], axis=1), rtol=1e-5)
    np.testing.assert_allclose(both[1], np.concatenate([forward[1], reverse[1]], axis=0), rtol=1e-5)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_sequence_lengths_truncate_outputs(kind: str, direction: str) -> None:
    x = random_array(4, 2, 5)
    result = recurrent(kind, x, direction, lengths=np.asarray([4, 2], "int32"))
    short = recurrent(kind, x[:2, 1:].copy(), direction)
    np.testing.assert_allclose(result[0][:2, :, 1:], short[0], rtol=1e-5)
    assert not result[0][2:, :, 1].any()
    for state, expected in zip(result[1:], short[1:], strict=True):
        np.testing.assert_allclose(state[:, 1:], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_layout_1_has_batch_first(kind: str) -> None:
    x = random_array(4, 2, 5)
    result, first = recurrent(kind, x), recurrent(kind, x.transpose(1, 0, 2).copy(), more=", layout = 1")
    np.testing.assert_allclose(first[0], result[0].transpose(2, 0, 1, 3), rtol=1e-5)
    np.testing.assert_allclose(first[1], result[1].transpose(1, 0, 2), rtol=1e-5)


ACTIVATIONS: dict[str, Callable[[Floats], npt.NDArray[np.floating]]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Affine": lambda x: 0.5 * x + 0.25,
    "LeakyRelu": lambda x: np.where(x < 0, 0.5 * x, x),
    "ThresholdedRelu": lambda x: np.where(x >= 0.5, x, 0),
    "ScaledTanh": lambda x: 0.5 * np.tanh(0.25 * x),
    "HardSigmoid": lambda x: np.clip(0.5 * x + 0.25, 0, 1),
    "Elu": lambda x: np.where(x < 0, 0.5 * np.expm1(x), x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.log1p(np.exp(x)),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_recurrent_layer_applies_activation_function(name: str) -> None:
    x = random_array(1, 2, 5)
    more = f', activations = ["{name}"], activation_alpha = [0.5], activation_beta = [0.25]'
    weights, bias = random_array(1, 3, 5, seed=1), random_array(1, 6, seed=3)
    total = x[0] @ weights[0].T + bias[0, :3] + bias[0, 3:]
    np.testing.assert_allclose(recurrent("RNN", x, more=more)[1][0], ACTIVATIONS[name](total), rtol=1e-5, atol=1e-6)


def test_input_forget_couples_lstm_gates() -> None:
    """The first step is unchanged: there is no earlier cell state to forget."""
    x = random_array(3, 2, 5)
    coupled, free = recurrent("LSTM", x, more=", input_forget = 1"), recurrent("LSTM", x)
    np.testing.assert_allclose(coupled[0][0], free[0][0], rtol=1e-5)
    assert not np.allclose(coupled[0][1], free[0][1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float", "double"])
@pytest.mark.parametrize(
    "operator", ["Elu", "Selu", "Celu", "Mish", "Gelu", "Softplus", "HardSwish", "Softmax", "Sigmoid"]
)
def test_activation_function_supports_all_float_types(operator: str, dtype: str) -> None:
    proto = model(
        f"g (float[7] x) => (float[7] y) {{ c = Cast<to = {TO[dtype]}>(x)  d = {operator}(c)  y = Cast<to = 1>(d) }}",
        opset=28,
        ir_version=13,
    )
    wide = model(f"g (float[7] x) => (float[7] y) {{ y = {operator}(x) }}", opset=28, ir_version=13)
    data = np.asarray([-8, -1.5, -0.25, 0, 0.25, 1.5, 8], "float32")
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 1e-6)
    np.testing.assert_allclose(
        evaluate_model(proto, data)[0], evaluate_model(wide, data)[0], rtol=tolerance, atol=tolerance
    )


TO = {"float": 1, "float16": 10, "double": 11, "bfloat16": 16}
"""ONNX's enum values of the element types."""


@pytest.mark.parametrize("fmod", [0, 1])
def test_mod_of_floats_equals_numpy(fmod: int) -> None:
    proto = model(
        f"g (float[6] x, float[6] y) => (float[6] z) {{ z = Mod<fmod = {fmod}>(x, y) }}", opset=28, ir_version=13
    )
    x, y = np.asarray([-4.5, 4.5, -4.5, 4.5, 4, -4], "float32"), np.asarray([2, -2, -2, 2, 2, 2], "float32")
    assert evaluate_model(proto, x, y)[0].tolist() == (np.fmod if fmod else np.mod)(x, y).tolist()


def test_round_rounds_halves_to_even() -> None:
    proto = model("g (float[8] x) => (float[8] y) { y = Round(x) }")
    data = np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609], "float32")
    assert evaluate_model(proto, data)[0].tolist() == np.rint(data).tolist()


def test_integer_division_truncates() -> None:
    proto = model("g (int32[4] x, int32[4] y) => (int32[4] z) { z = Div(x, y) }")
    result = evaluate_model(proto, np.asarray([7, -7, 7, -7], "int32"), np.asarray([2, 2, -2, -2], "int32"))
    assert result[0].tolist() == [3, -3, -3, 3]


@pytest.mark.parametrize("k", [-2, 0, 1])
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu_accepts_dynamic_diagonal(k: int, upper: int) -> None:
    proto = model(f"g (float[2, 3, 4] x, int64 k) => (float[2, 3, 4] y) {{ y = Trilu<upper = {upper}>(x, k) }}")
    data = random_array(2, 3, 4)
    assert evaluate_model(proto, data, k)[0].tolist() == (np.triu if upper else np.tril)(data, k).tolist()


def test_compress_accepts_dynamic_condition() -> None:
    proto = model("g (float[2, 3] x, bool[3] c) => (float[2, K] y) { y = Compress<axis = 1>(x, c) }")
    data = random_array(2, 3)
    assert evaluate_model(proto, data, [True, False, True])[0].tolist() == data[:, [0, 2]].tolist()


def test_negative_gather_indices_count_from_end() -> None:
    text = "g (float[D, 2] x, int64[3] i) => (float[3, 2] y) { y = Gather(x, i) }"
    data = random_array(4, 2)
    for dim in ("4", "D"):
        result = evaluate_model(model(text.replace("D", dim)), data, np.asarray([-1, 0, -4]))
        assert result[0].tolist() == data[[-1, 0, -4]].tolist()


EQUATIONS = ("ij,jk->ik", "...ij,...jk->...ik", "ii->i", "bij,bjk,kl->bil", "ij->", "i,j", "ab,ab", "...a->a...")


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_equals_numpy(equation: str) -> None:
    terms = [term.replace("...", "z") for term in equation.partition("->")[0].split(",")]
    sizes = dict(zip("abijklz", range(2, 9), strict=True))
    shapes = [tuple(sizes[label] for label in term) for term in terms]
    inputs = [random_array(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    names = "pqr"[: len(inputs)]
    declared = ", ".join(f"float{list(shape)} {name}" for shape, name in zip(shapes, names, strict=True))
    proto = model(f'g ({declared}) => (float[K] y) {{ y = Einsum<equation = "{equation}">({", ".join(names)}) }}')
    expected: Numbers = np.einsum(equation, *inputs)
    np.testing.assert_allclose(evaluate_model(proto, *inputs)[0], expected, rtol=1e-4, atol=1e-5)


def test_negative_insert_position_counts_from_end() -> None:
    proto = model(
        """g (float[2] x, float[2] y, float[2] z) => (float[2] r) <int64 last = {-1}> {
            pair = SequenceConstruct(x, y)
            three = SequenceInsert(pair, z, last)
            r = SequenceAt(three, last)
        }"""
    )
    inputs = [np.full(2, number, "float32") for number in range(3)]
    np.testing.assert_array_equal(evaluate_model(proto, *inputs)[0], inputs[1])
