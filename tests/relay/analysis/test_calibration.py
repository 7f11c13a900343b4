"""get_calibration_data on graphs with functions for other compilers."""

import pytest

from apass.relay.analysis import get_calibration_data
from apass.relay.errors import EvaluationError
from apass.relay.parser import parse

MODULE = parse(
    """#[version = "0.0.5"]
    def @double(%a: int32, Compiler="other") -> int32 { add(%a, %a) }
    def @pair(%a: int32, %b: int32, Compiler="other") -> (int32, int32) { (add(%a, %b), %b) }
    def @own(%a: int32) -> int32 { negative(%a) }
    def @main(%x: int32, %y: int32) {
      %0 = @double(add(%x, 1));
      %1 = @pair(%0, @own(%y));
      %1.0
    }
    """
)


def test_inputs_and_outputs_are_recorded() -> None:
    data = get_calibration_data(MODULE, {"x": 2, "y": 5})
    assert data == {
        MODULE.get_global_var("double"): {"inputs": [3], "outputs": [6]},
        MODULE.get_global_var("pair"): {"inputs": [6, -5], "outputs": [1, -5]},
    }


def test_module_without_external_functions_has_no_data() -> None:
    assert get_calibration_data(parse('#[version = "0.0.5"]\ndef @main(%x: int32) { %x }'), {"x": 1}) == {}


@pytest.mark.parametrize("body", ["let %y = @double(%x); %y", "if (True) { @double(%x) } else { %x }"])
def test_control_flow_is_error(body: str) -> None:
    text = f'#[version = "0.0.5"]\ndef @double(%a: int32, Compiler="other") {{ %a }} def @main(%x: int32) {{ {body} }}'
    with pytest.raises(ValueError, match="requires a main without control flow"):
        get_calibration_data(parse(text), {"x": 1})


def test_missing_argument_is_error() -> None:
    with pytest.raises(EvaluationError):
        get_calibration_data(MODULE, {"x": 1})
    with pytest.raises(EvaluationError):
        get_calibration_data(MODULE, {})
