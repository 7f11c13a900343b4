"""The board of searches for fast models: one search, and the page."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from apass.adapters.onnx import save_model
from benchmarks import latency_search as board
from tests.helpers.onnx_models import chain

ROW = board.Row(
    board="ONNX",
    name="a",
    before=0.0125,
    pipeline="ort.Basic,onnxslim.Slim",
    ratios=(0.5, 0.52, 0.5, 0.48, 0.5),
    single="ort.Basic",
    single_ratios=(0.9, 0.9, 0.9, 0.9, 0.9),
    outputs="outputs equal: within tolerance: output 'y' differs by up to 1e-7",
    candidates=60,
    failed=2,
    seconds=31.4,
)


@pytest.mark.process
@pytest.mark.slow
def test_result_runs_again_in_new_processes(tmp_path: Path) -> None:
    path, first = tmp_path / "chain.onnx", tmp_path / "first.txt"
    save_model(chain(3), path)
    first.write_text("ort.Basic\n")
    row = anyio.run(partial(board.onnx_row, "chain", path, first, 2))
    assert (row.name, row.candidates, row.outputs) == ("chain", 2, "outputs equal")
    assert len(row.ratios) == len(row.single_ratios) == board.PROCESSES
    assert row.before > 0


def test_page_has_a_table_for_each_board() -> None:
    same = board.UNCHANGED
    rows = [
        ROW,
        replace(ROW, name="b", pipeline="", single="", ratios=same, single_ratios=same),
        replace(ROW, board="TIR", name="64 x 64", before=2e-4, single="", single_ratios=()),
    ]
    page = board.page(rows, "Made here.")
    assert "| a | 12.5 ms | 0.900 | 0.500 | 0.480 to 0.520 | equal, within tolerance | 2 | 31 |" in page
    assert "| b | 12.5 ms | 1.000 | 1.000 |  | equal, within tolerance | 2 | 31 |" in page
    assert "| geometric mean | | 0.949 | 0.707 | | | | 63 |" in page
    assert "| b | none is faster | none is faster |" in page
    assert (
        "| 64 x 64 | 200 µs | 0.500 | 0.480 to 0.520 | 2.0 | `ort.Basic,onnxslim.Slim` | equal, within tolerance | 31 |"
        in page
    )
    assert page.endswith("\nMade here.\n")
