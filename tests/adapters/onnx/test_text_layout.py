"""The text of ONNX models: long lists have one line for each entry."""

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest

from apass.adapters.onnx import ADAPTER, load_model
from apass.adapters.onnx.text_layout import break_long_lines

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.parametrize("name", ["squeezenet", "resnet50"])
def test_diff_of_real_models_is_short(name: str) -> None:
    model = load_model(LIGHT / f"light_{name}.onnx")
    graph = model.graph.clone()
    node = graph[0]
    node.op_type = "Changed"
    renamed = next(value for value in graph.initializers.values() if value is not node.inputs[0])
    renamed.name = "renamed"
    before, after = ADAPTER.to_text(model), ADAPTER.to_text(ADAPTER.replace(model, {"main": graph}))
    removed = [line for line in before.splitlines() if line not in set(after.splitlines())]
    assert 2 <= len(removed) <= 6
    assert max(map(len, removed)) < 1000


@pytest.mark.parametrize("name", ["squeezenet", "densenet121"])
def test_broken_lines_parse_to_the_same_model(name: str) -> None:
    model = load_model(LIGHT / f"light_{name}.onnx")
    text = onnx.printer.to_text(ir.to_proto(model))
    broken = break_long_lines(text)
    assert onnx.parser.parse_model(broken) == onnx.parser.parse_model(text)
    assert "".join(broken.split()) == "".join(text.split())


def test_only_long_lists_are_broken() -> None:
    name = ", ".join(["(a"] * 20)
    long = ", ".join(f"float[2] x{number}" for number in range(12))
    text = f'  g (float[1] "{name}", {long}) => (float[1] y) <float[1] z = {{1,2}}>\n  short (a, b)'
    lines = break_long_lines(text).split("\n")
    assert lines == [
        "  g (",
        f'     float[1] "{name}",',
        *(f"     float[2] x{number}," for number in range(11)),
        "     float[2] x11) => (float[1] y) <float[1] z = {1,2}>",
        "  short (a, b)",
    ]
    assert break_long_lines("x" * 200) == "x" * 200
