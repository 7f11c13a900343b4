"""Matrix products: agreement with numpy, and types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.relay.expr import Call
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
from tests.helpers.relay.kernel_checks import (
    X,
    Y,
    close,
    evaluated,
    inferred,
    numbers,
    refused,
)

SIZES = st.integers(1, 4)


@given(st.lists(SIZES, max_size=3), SIZES, SIZES, st.sampled_from(["float32", "float64", "int32", "float16"]))
def test_dense_multiplies_by_the_transposed_weight(lead: list[int], reduced: int, units: int, dtype: str) -> None:
    data, weight = numbers(*lead, reduced, dtype=dtype), numbers(units, reduced, dtype=dtype)
    out = evaluated(nn.dense(X, Y), data, weight)
    close(out, np.einsum("...k,uk->...u", data, weight), 1e-2)


@given(SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_matmul_transposes_either_matrix(rows: int, reduced: int, columns: int, a: bool, b: bool) -> None:
    left, right = numbers(rows, reduced), numbers(reduced, columns)
    call = nn.matmul(X, Y, transpose_a=a, transpose_b=b)
    out = evaluated(call, left.T if a else left, right.T if b else right)
    close(out, np.matmul(left, right))


@given(st.sampled_from([(3, 3), (1, 3), (3, 1)]), SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_batch_matmul_broadcasts_a_batch_of_one(
    batches: tuple[int, int], rows: int, reduced: int, columns: int, a: bool, b: bool
) -> None:
    left, right = numbers(batches[0], rows, reduced), numbers(batches[1], reduced, columns)
    call = nn.batch_matmul(X, Y, transpose_a=a, transpose_b=b)
    out = evaluated(call, left.swapaxes(1, 2) if a else left, right.swapaxes(1, 2) if b else right)
    close(out, np.matmul(left, right))


def test_batch_matmul_transposes_the_second_operand_by_default() -> None:
    left, right = numbers(2, 3, 4), numbers(2, 5, 4)
    out = evaluated(nn.batch_matmul(X, Y), left, right)
    close(out, np.einsum("bik,bjk->bij", left, right))


def test_product_has_the_requested_element_type() -> None:
    data, weight = np.full((1, 300), 100, "int8"), np.full((1, 300), 100, "int8")
    for call in (nn.dense(X, Y, out_dtype="int32"), nn.matmul(X, Y, out_dtype="int32", transpose_b=True)):
        out = evaluated(call, data, weight)
        assert out.dtype == "int32"
        assert out.item() == 3_000_000
    both = evaluated(nn.batch_matmul(X, Y, out_dtype="int32"), data[np.newaxis], weight[np.newaxis])
    assert both.item() == 3_000_000


def test_dense_pack_agrees_with_dense() -> None:
    data, weight = numbers(3, 6), numbers(8, 6)
    blocks = convert_array(weight, parse_layout("NC"), parse_layout("NC4n"))
    out = evaluated(nn.contrib_dense_pack(X, Y, weight_layout="NC4n"), data, blocks)
    close(out, evaluated(nn.dense(X, Y), data, weight), 1e-6)


def test_weight_type_follows_from_data_and_units() -> None:
    data = TensorType((Any(), 7, 5), "float16")
    assert inferred(nn.dense(X, Y, units=3), data, None) == [
        None,
        TensorType((3, 5), "float16"),
        TensorType((Any(), 7, 3), "float16"),
    ]
    assert inferred(nn.matmul(X, Y, units=3, transpose_a=True), TensorType((5, 7)), None) == [
        None,
        TensorType((5, 3)),
        TensorType((7, 3)),
    ]


def test_products_wait_for_incomplete_types() -> None:
    known = TensorType((2, 2))
    assert inferred(nn.dense(X, Y), known, None) is None
    assert inferred(nn.dense(X, Y, units=2), None, known) is None
    assert inferred(nn.batch_matmul(X, Y), TensorType((1, 2, 2)), None) is None


def test_symbolic_dimensions_stay_symbolic() -> None:
    left, right = TensorType((Any(), 2, 3)), TensorType((Any(), Any(), 3))
    assert inferred(nn.batch_matmul(X, Y), left, right) == [None, None, TensorType((Any(), 2, Any()))]
    assert inferred(nn.dense(X, Y), TensorType((2, Any())), TensorType((4, 3))) == [
        None,
        TensorType((4, 3)),
        TensorType((2, 4)),
    ]


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.dense(X, Y),
            (TensorType((2, 3)), TensorType((4, 5))),
            "nn.dense: the second operand must have the shape (4, 3), got Tensor[(4, 5), float32]",
        ),
        (
            nn.dense(X, Y, units=6),
            (TensorType((2, 3)), TensorType((4, 3))),
            "nn.dense: the second operand must have the shape (6, 3), got Tensor[(4, 3), float32]",
        ),
        (
            nn.dense(X, Y),
            (TensorType((2, 3)), TensorType((4, 3, 1))),
            "nn.dense: the second operand must have 2 dimensions, got Tensor[(4, 3, 1), float32]",
        ),
        (
            nn.dense(X, Y, units=1),
            (TensorType(()), None),
            "nn.dense: the first operand must be a matrix, got float32",
        ),
        (
            nn.batch_matmul(X, Y),
            (TensorType((2, 3, 4), "int8"), TensorType((2, 4, 3), "int8")),
            (
                "nn.batch_matmul: the inner dimensions of Tensor[(2, 3, 4), int8] and Tensor[(2, 4, 3), int8] "
                "must be equal, got 4 and 3"
            ),
        ),
        (
            nn.batch_matmul(X, Y),
            (TensorType((2, 3, 4), "int8"), TensorType((3, 3, 4), "int8")),
            (
                "nn.batch_matmul: the batches of Tensor[(2, 3, 4), int8] and Tensor[(3, 3, 4), int8] "
                "must be equal or 1, got 2 and 3"
            ),
        ),
        (
            nn.batch_matmul(X, Y),
            (TensorType((2, 3)), TensorType((3, 3, 4))),
            "nn.batch_matmul: the first operand must have 3 dimensions, got Tensor[(2, 3), float32]",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message
