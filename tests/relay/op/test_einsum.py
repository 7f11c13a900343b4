"""Sums of products."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.ty import Any
from tests.relay.op.values import refusal, result_type, tensor, value

_RNG = np.random.default_rng(3)
_A = _RNG.standard_normal((2, 3, 4)).astype("float32")
_B = _RNG.standard_normal((2, 4, 5)).astype("float32")


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bjk", "...ij,...jk->...ik", "bij, cjk -> bcik", "bij,bjk->"])
def test_einsum_agrees_with_numpy(equation: str) -> None:
    expected = np.einsum(equation, _A, _B)
    result = value(op.einsum([const(_A), const(_B)], equation))
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_einsum_type_follows_from_the_labels() -> None:
    assert result_type(op.einsum([tensor(2, Any()), tensor(3, 4)], "ij,jk->kj")) == "Tensor[(4, 3), float32]"
    assert result_type(op.einsum([tensor(2, 3), tensor(3, 4)], "ij,jk")) == "Tensor[(2, 4), float32]"
    assert result_type(op.einsum([tensor(5, 2, 3)], "...ij->j...")) == "Tensor[(3, 5), float32]"


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->ik", "the equation 'ij,jk->ik' needs 2 tensors, got 1"),
        ("ijk->i", "'ijk' does not label the axes of a tensor of shape (2, 3)"),
        ("i->i", "'i' does not label the axes of a tensor of shape (2, 3)"),
        ("i1->i", "'i1' does not label the axes of a tensor of shape (2, 3)"),
        ("ij->ik", "the result 'ik' must use labels of the tensors, each at most once, and their ellipsis"),
        ("i...->i", "the result 'i' must use labels of the tensors, each at most once, and their ellipsis"),
        ("ij->ii", "the result 'ii' must use labels of the tensors, each at most once, and their ellipsis"),
    ],
)
def test_einsum_rejects_equations_that_do_not_fit(equation: str, message: str) -> None:
    assert refusal(op.einsum([tensor(2, 3)], equation)) == f"einsum: {message}"


def test_einsum_rejects_one_label_for_two_sizes() -> None:
    assert "cannot be broadcast" in refusal(op.einsum([tensor(2, 3), tensor(4, 5)], "ij,jk->ik"))
