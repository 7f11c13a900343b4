"""FirstOrderGradient as a pass over modules."""

import numpy as np
import pytest

import apass
from apass.relay import transform
from apass.relay.errors import OpNotImplementedError
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.transform import run_on
from apass.relay.type_inference.infer import infer_module

TWO = """#[version = "0.0.5"]
def @main(%x: Tensor[(2), float64]) -> Tensor[(2), float64] { multiply(%x, %x) }
def @other(%x: float64, %y: float64) -> float64 { multiply(%x, %y) }
"""


def test_every_function_is_differentiated() -> None:
    mod = parse(TWO)
    new = run_on(transform.FirstOrderGradient(), mod)
    assert infer_module(new) is new
    result = new["main"].checked_type, new["other"].checked_type
    assert [str(ty).partition(" -> ")[2] for ty in result] == [
        "(Tensor[(2), float64], (Tensor[(2), float64],))",
        "(float64, (float64, float64))",
    ]
    value = apass.relay.evaluate(new, np.array([1.0, 2.0]))
    assert str(value) == "(array([1., 4.]), (array([2., 4.]),))"


def test_pass_has_the_level_and_name_of_tvm() -> None:
    info = transform.FirstOrderGradient().info
    assert (info.name, info.opt_level, tuple(info.required)) == ("FirstOrderGradient", 0, ())
    assert run_on(apass.parse_pipeline("FirstOrderGradient"), parse(TWO))["main"].params


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (less(%x, 0f64)) { %x } else { %x }", "does not support If nodes"),
        ("let %y = %x; %y", "does not support Let nodes"),
        ("@main(%x)", "does not support calls of GlobalVar nodes"),
    ],
)
def test_control_flow_and_calls_are_refused(body: str, message: str) -> None:
    mod = parse(f'#[version = "0.0.5"]\ndef @main(%x: float64) -> float64 {{ {body} }}\n')
    with pytest.raises(ValueError, match=message):
        run_on(transform.FirstOrderGradient(), mod)


def test_missing_gradient_names_the_operator() -> None:
    code = "def @main(%x: Tensor[(2), float64]) { unique(%x, return_counts=False) }"
    with pytest.raises(OpNotImplementedError, match=r"the operator unique does not have a registered gradient"):
        run_on(transform.FirstOrderGradient(), parse(f'#[version = "0.0.5"]\n{code}\n'))


def test_module_is_not_changed_in_place() -> None:
    mod = parse(TWO)
    before = mod["main"]
    run_on(transform.FirstOrderGradient(), mod)
    assert mod["main"] is before
    assert isinstance(mod, IRModule)
