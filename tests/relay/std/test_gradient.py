"""The library file of gradients that are computed when they are needed."""

import numpy as np
import pytest

from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from apass.relay.type_inference.infer import infer_module

PROGRAM = """#[version = "0.0.5"]
def @main(%x: float64, %y: float64) -> float64 {{
  let %raw = Raw(%x);
  let %other = Raw(%y);
  let %one = One(fn () -> float64 {{ 1f64 }});
  let %zero = Zero(fn () -> float64 {{ 0f64 }});
  @FromGradCell({})
}}
"""
ADD = "@AddGradCell(fn (%a: float64, %b: float64) {{ add(%a, %b) }}, %{}, %{})"
MULTIPLY = "@MultiplyGradCell(fn (%a: float64, %b: float64) {{ multiply(%a, %b) }}, %{}, %{})"
# Neither function is called for symbolic gradients.
FIRST = "(fn (%a: float64, %b: float64) {{ 99f64 }}, %{}, %{})"


def gradient_library() -> IRModule:
    mod = IRModule()
    mod.import_from_std("gradient.rly")
    return mod


def test_library_has_the_definitions_of_tvm() -> None:
    mod = gradient_library()
    assert [con.name_hint for con in mod.get_type_data("GradCell").constructors] == ["Raw", "One", "Zero"]
    names = {gvar.name_hint for gvar in mod.get_global_vars()}
    assert names == {"FromGradCell", "MultiplyGradCell", "AddGradCell"}
    assert infer_module(mod)["AddGradCell"].type_params[0].name_hint == "T"


@pytest.mark.parametrize(
    ("rule", "cells", "expected"),
    [
        (ADD, ("raw", "other"), 8),
        (ADD, ("one", "raw"), 4),
        ("@AddGradCell" + FIRST, ("zero", "raw"), 3),
        ("@AddGradCell" + FIRST, ("raw", "zero"), 3),
        (MULTIPLY, ("raw", "other"), 15),
        ("@MultiplyGradCell" + FIRST, ("zero", "raw"), 0),
        ("@MultiplyGradCell" + FIRST, ("raw", "zero"), 0),
        ("@MultiplyGradCell" + FIRST, ("one", "raw"), 3),
        ("@MultiplyGradCell" + FIRST, ("raw", "one"), 3),
    ],
)
def test_cells_are_combined(rule: str, cells: tuple[str, str], expected: float) -> None:
    mod = parse(PROGRAM.format(rule.format(*cells)), init_module=gradient_library())
    assert np.asarray(evaluate(mod, 3.0, 5.0)) == expected
