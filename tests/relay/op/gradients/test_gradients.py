"""The gradients of all operators against finite differences."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay.expr import OP_ATTRS, Call, Expr, Var
from apass.relay.ir.expr import OPS
from apass.relay.ir.ndarray import Array
from apass.relay.ir.variables import free_vars
from tests.helpers.amounts import amount
from tests.helpers.repository import ROOT
from tests.relay.op.drawn import Draw
from tests.relay.op.drawn_calls import CALLS, draw_call
from tests.relay.op.gradients.cases import CASES, Case
from tests.relay.op.gradients.differences import check_call, check_function, loss_of

WITH_GRADIENT = sorted(OP_ATTRS["FPrimalGradient"])
WITHOUT_GRADIENT = set(OPS) - set(WITH_GRADIENT)  # before tests register operators of their own
# The random calls of searchsorted have a constant of float32.
DRAWN = sorted({*WITH_GRADIENT} & {*CALLS} - {"searchsorted"})

T = TypeVar("T")


@dataclass
class _Doubles(Draw):
    """A source of random tensors of float64, without equal elements."""

    def tensor(self, shape: Iterable[int], dtype: str = "float32") -> Var:
        if not dtype.startswith("float"):
            return super().tensor(shape, dtype)
        rng = np.random.default_rng((self.number(0, 2**16), len(self.values)))
        return self.variable(np.asarray(rng.uniform(-4, 4, tuple(shape))))

    def one_of(self, *choices: T) -> T:
        if any(isinstance(choice, str) and choice.startswith("float") for choice in choices):
            return cast("T", "float64")
        return super().one_of(*choices)


def _is_supported(call: Call) -> bool:
    """Return whether the gradient of a call exists; a batch of indices has none."""
    return not getattr(call.attrs, "batch_dims", 0)


def _numbered(cases: dict[str, list[Case]]) -> list[object]:
    return [pytest.param(case, id=f"{name}-{index}") for name in cases for index, case in enumerate(cases[name])]


def test_every_gradient_has_a_case() -> None:
    assert [name for name in WITH_GRADIENT if name not in CASES and name not in DRAWN] == []
    assert [name for name in CASES if name not in WITH_GRADIENT] == []


def test_operators_without_gradient_are_those_of_the_page() -> None:
    expected = {
        *("annotation.compiler_begin", "annotation.compiler_end", "argwhere", "debug", "fixed_point_multiply"),
        *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "reinterpret"),
        *("dyn.image.resize2d", "dyn.nn.pad", "dyn.nn.upsampling", "dyn.nn.upsampling3d", "dyn.one_hot"),
        *("dyn.sparse_to_dense", "dyn.strided_slice", "dyn.tile", "dyn.topk", "nn.deformable_conv2d"),
        *("nn.max_pool2d_grad", "unique", "unravel_index"),
    }
    assert expected == WITHOUT_GRADIENT
    page = (ROOT / "docs/explanation/deviations.md").read_text()
    assert f"- {len(WITHOUT_GRADIENT)} operators have no gradient" in page


@pytest.mark.parametrize("case", _numbered(dict(CASES)))
def test_gradient_equals_finite_differences(case: Case) -> None:
    check_call(case.build, case.inputs)


@pytest.mark.parametrize("name", DRAWN)
@given(data=st.data())
@settings(max_examples=amount(8, least=2))
def test_gradient_of_random_call_equals_differences(name: str, data: st.DataObject) -> None:
    draw = _Doubles(data)
    call: Expr = draw_call(name, draw)
    assert isinstance(call, Call)
    if not _is_supported(call):
        return
    values: dict[Var, Array] = {param: draw.values[param] for param in free_vars(call)}
    with np.errstate(all="ignore"):
        check_function(loss_of(call, values), list(values.values()))
