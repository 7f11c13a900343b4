"""Sums of products."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.make import const
from apass.relay.ty import Any
from tests.relay.op.values import refusal, result_type, tensor, value

_RNG = np.random.default_rng(3)
_A = _RNG.standard_normal((2, 3, 4)).astype("float32")
_B = _RNG.standard_normal((2, 4, 5)).astype("float32")


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bjk", "...ij,...jk->...ik", "bij, cjk -> bcik", "bij,bjk->"])
def test_einsum_is_that_of_numpy(equation: str) -> None:
    expected = np.einsum(equation, _A, _B)
    made = value(op.einsum([const(_A), const(_B)], equation))
    assert made.shape == expected.shape
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


def test_its_type_follows_from_the_letters() -> None:
    assert result_type(op.einsum([tensor(2, Any()), tensor(3, 4)], "ij,jk->kj")) == "Tensor[(4, 3), float32]"
    assert result_type(op.einsum([tensor(2, 3), tensor(3, 4)], "ij,jk")) == "Tensor[(2, 4), float32]"
    assert result_type(op.einsum([tensor(5, 2, 3)], "...ij->j...")) == "Tensor[(3, 5), float32]"


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->ik", "'ij,jk->ik' is about 2 tensors, but there are 1"),
        ("ijk->i", "'ijk' does not name the axes of a tensor of shape (2, 3)"),
        ("i->i", "'i' does not name the axes of a tensor of shape (2, 3)"),
        ("i1->i", "'i1' does not name the axes of a tensor of shape (2, 3)"),
        ("ij->ik", "the result 'ik' must name axes of the tensors, each once, and keep their ellipsis"),
        ("i...->i", "the result 'i' must name axes of the tensors, each once, and keep their ellipsis"),
        ("ij->ii", "the result 'ii' must name axes of the tensors, each once, and keep their ellipsis"),
    ],
)
def test_an_equation_that_does_not_fit_is_refused(equation: str, message: str) -> None:
    assert refusal(op.einsum([tensor(2, 3)], equation)) == f"einsum: {message}"


def test_one_letter_for_two_sizes_is_refused() -> None:
    assert "cannot be broadcast" in refusal(op.einsum([tensor(2, 3), tensor(4, 5)], "ij,jk->ik"))
