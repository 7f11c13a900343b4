"""`benchmarks.arena`: models, counts, intervals, culprits and totals."""

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

import pytest
from onnx import TensorProto, helper

from benchmarks.arena.contest import count_foreign, count_nodes, interface_change
from benchmarks.arena.culprits import first_culprit
from benchmarks.arena.latency import Latency, ratio_interval
from benchmarks.arena.models import load_models, select_models
from benchmarks.arena.page import page
from benchmarks.arena.rows import Outputs, Row, Run
from benchmarks.arena.table import lines_of
from benchmarks.arena.totals import mark, totals


def row(tool: str, nodes: int | None, outputs: Outputs = Outputs.IDENTICAL, **values: Any) -> Row:
    """Return a row of a model with ten nodes."""
    made: dict[str, Any] = {
        "model": "net",
        "group": "ten",
        "tuned": False,
        "bytes": None if nodes is None else 90,
        **values,
    }
    return Row(
        tool=tool,
        nodes=nodes,
        outputs=outputs,
        wheel="w==1",
        sha256="",
        version="1",
        nodes_before=10,
        bytes_before=100,
        **made,
    )


def test_list_has_many_models_of_many_packages() -> None:
    models = load_models()
    packages = Counter(model.wheel.package for model in models)
    assert len(models) >= 40
    assert len(packages) >= 12
    assert max(packages.values()) <= 6
    assert all(model.wheel.version[0].isdigit() and len(model.sha256) == 64 for model in models)
    untuned = Counter(model.wheel.package for model in models if not model.wheel.tuned)
    assert len(untuned) >= 12
    assert untuned.total() >= 15
    assert all(model.wheel.tuned for model in select_models(models, "ten", []))


def test_group_and_patterns_select_models() -> None:
    models = load_models()
    ten = select_models(models, "ten", [])
    others = select_models(models, "others", [])
    assert (len(ten), len(ten) + len(others)) == (10, len(select_models(models, "all", [])))
    assert {model.wheel.package for model in ten} == {"rapidocr-onnxruntime", "silero-vad", "magika"}
    assert [model.name for model in select_models(models, "ten", ["magika", "*-cls"])] == ["rapidocr-cls", "magika"]


def test_nodes_of_subgraphs_and_functions_count() -> None:
    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    output = helper.make_tensor_value_info("o", TensorProto.FLOAT, [1])
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=value), helper.make_node("Neg", ["c"], ["o"])], "b", [], [output]
    )
    branch = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    call = helper.make_node("F", ["y"], ["z"], domain="local")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    body = [helper.make_node("Abs", ["a"], ["b"]), helper.make_node("Gelu", ["b"], ["r"], domain="vendor")]
    function = helper.make_function("local", "F", ["a"], ["r"], body, opsets)
    x = helper.make_tensor_value_info("x", TensorProto.BOOL, [])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])
    model = helper.make_model(
        helper.make_graph([branch, call], "g", [x], [z]), functions=[function], opset_imports=opsets
    )
    assert count_nodes(model) == 6  # If, two Neg, F, Abs and Gelu
    assert (count_foreign(model, model), count_foreign(helper.make_model(model.graph), model)) == (0, 1)


def test_change_of_interface_is_described() -> None:
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xyz")
    doubled = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [1])
    default = helper.make_tensor("z", TensorProto.FLOAT, [1], [1.0])
    node = helper.make_node("Neg", ["x"], ["y"])
    before = helper.make_model(helper.make_graph([node], "g", [x, z], [y]))
    after = helper.make_model(helper.make_graph([node], "g", [x, z], [doubled], [default]))
    assert interface_change(before, before) == ""
    assert interface_change(before, after) == "input 'z' is missing, output 'y' has another type"
    assert interface_change(after, before) == "input 'z' is new, output 'y' has another type"


def test_interval_contains_the_ratio() -> None:
    before = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98]
    faster = Latency.of(before, before, [value / 2 for value in before])
    assert (faster.ratio, faster.change, faster.rounds, faster.control) == (0.5, "faster", 7, 1.0)
    assert faster.low < 0.5 < faster.high < 1
    low, high = ratio_interval(before, before)
    assert low < 1 < high
    assert low == pytest.approx(1 / high)
    assert Latency.of(before, before, before).change == ""
    assert Latency.of([1.0], [1.0], [3.0]).change == "slower"


def test_difference_within_noise_is_no_change() -> None:
    steady, slower, slowest = [1.0] * 7, [1.1] * 7, [1.4] * 7
    assert [Latency.of(steady, steady, after).change for after in (steady, slower)] == ["", "slower"]
    assert [Latency.of(steady, slower, after).change for after in (slower, slowest)] == ["", "slower"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("needed", "culprit"),
    [
        ({"a"}, "a"),
        ({"c"}, "c"),
        ({"e"}, "e"),
        ({"b", "d"}, "d or b, each on its own"),
        ({"a", "b", "c", "d", "e"}, "e or d or c or b, or others, each on its own"),
        ({"nothing"}, ""),
    ],
)
async def test_culprit_is_found_by_bisection(needed: set[str], culprit: str) -> None:
    async def is_good(skip: Collection[str]) -> bool:
        return needed <= set(skip)

    assert await first_culprit(["a", "b", "c", "d", "e"], is_good) == culprit
    assert await first_culprit([], is_good) == ""


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (row("t", 5), "5"),
        (row("t", 5, Outputs.CHANGED), "5!"),
        (row("t", 5, Outputs.UNVERIFIED, bytes=101), "5?+"),
        (row("t", 5, Outputs.NEAR, foreign=1), "5x"),
        (row("t", 5, interface="input 'x' is missing"), "5i"),
        (row("t", None, Outputs.NONE), "crash"),
        (row("t", None, Outputs.NONE, timed_out=True), "time"),
    ],
)
def test_cell_marks_what_is_wrong(given: Row, text: str) -> None:
    assert mark(given) == text


def test_only_verified_results_are_the_smallest() -> None:
    run = Run(
        {},
        {},
        "",
        [row("apass2", 8), row("apass3", 7), row("a", 7), row("b", 3, Outputs.CHANGED), row("c", 4, foreign=2)],
    )
    assert {one.tool: one.best for one in totals(run)} == {"apass2": 0, "apass3": 1, "a": 1, "b": 0, "c": 0}
    lines = list(lines_of(run))
    assert lines[1].split() == ["net", "10", "8", "7", "7", "3!", "4x", "7"]
    assert "smallest verified result of each model: 7 nodes; of the peers alone: 7" in lines
    assert lines[-1] == "apass: 0 models with changed outputs, 0 without a result, 0 not verified"


def test_page_names_models_of_smaller_peers() -> None:
    rows = [row("apass3", 7), row("a", 5, bytes=111), row("b", 6, bytes=105)]
    rows += [row("apass3", 7, model="other"), row("a", 8, model="other"), row("b", 7, model="other")]
    text = page(Run({"date": "", "python": "", "platform": "", "processor": "", "cpus": 1}, {}, "", rows), [], "")
    part = text[text.index("## Models of which apass3") : text.index("## Changed outputs")]
    assert part.splitlines()[2:7] == [
        "A peer leaves fewer nodes of 1 of 2 models.",
        "",
        "| model | apass3 | peer | name | its bytes | its latency |",
        "|---|---:|---:|---:|---:|---:|",
        "| net | 7 | 6+ | b | +5.0% |  |",
    ]


def test_last_line_counts_models_of_apass() -> None:
    rows = [row("apass2", 8, Outputs.CHANGED), row("apass3", 7, Outputs.CHANGED), row("a", 3, Outputs.CHANGED)]
    rows += [row("apass2", None, Outputs.NONE, model="other"), row("apass3", 7, Outputs.UNVERIFIED, model="other")]
    *_, last = lines_of(Run({}, {}, "", rows))
    assert last == "apass: 1 models with changed outputs, 1 without a result, 1 not verified"
    *_, last = lines_of(Run({}, {}, "", [row("peer", 9)]))
    assert last.startswith("smallest verified result")


def test_levels_of_apass_are_no_rivals() -> None:
    rows = [row("apass1", 8), row("apass3", 5), row("peer", 9)]
    assert [one.best for one in totals(Run({}, {}, "", rows))] == [1, 1, 0]


def test_totals_count_the_original_after_crashes() -> None:
    rows = [row("t", None, Outputs.NONE), row("t", 4, model="other")]
    (sums,) = totals(Run({}, {}, "", rows))
    assert (sums.nodes, sums.bytes, sums.crashes, sums.identical, sums.latency) == (14, 190, 1, 1, None)


def test_rows_survive_json() -> None:
    first = row("t", 5, Outputs.NEAR, latency=Latency.of([1.0, 2.0], [1.0, 2.0], [3.0, 4.0]), difference=0.5)
    assert Row.from_json(asdict(first)) == first
    untuned = Run({}, {}, "", [first, row("t", 5, model="tuned", tuned=True)]).part(tuned=False)
    assert untuned.rows == [first]
