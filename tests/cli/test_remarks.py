"""`apass opt --remarks`: the file, its filter, and wrong options."""

from pathlib import Path

import pytest
import yaml

from tests.helpers.command_line import apass, program, write_model


def names(path: Path) -> list[str]:
    """Return pass and name of each document."""
    documents = yaml.compose_all(path.read_text(), yaml.SafeLoader)
    keys = ({key.value: value.value for key, value in node.value} for node in documents)
    return [f"{remark['Pass']} {remark['Name']}" for remark in keys]


def test_remarks_of_all_formats_share_a_file(tmp_path: Path, backend: str) -> None:
    program(tmp_path / "m.relay")
    write_model(tmp_path / "a.onnx")
    out = tmp_path / "out" / "remarks.yaml"
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "-O", 3, "--remarks", out, "--backend", backend)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, f"{len(names(out))} remarks in {out}")
    assert names(out)[:3] == [
        "onnx.IdentityElimination NodeCount",
        "EliminateCommonSubexpr Merged",
        "FoldConstant Folded",
    ]


def test_remarks_filter_selects_passes(tmp_path: Path) -> None:
    out = tmp_path / "remarks.yaml"
    source = program(tmp_path / "m.relay")
    assert apass("opt", source, "-O", 3, "--remarks", out, "--remarks-filter", "Fold|Inline").exit_code == 0
    assert names(out) == ["FoldConstant Folded"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--remarks-filter", "x"], "--remarks-filter needs --remarks FILE"),
        (
            ["--remarks", "r.yaml", "--remarks-filter", "("],
            "--remarks-filter: passes must be a regular expression for pass names, got '('",
        ),
        (["--remarks", "/"], "--remarks must name a file, but / is a folder"),
    ],
)
def test_invalid_remarks_options_are_rejected(tmp_path: Path, options: list[str], message: str) -> None:
    result = apass("opt", program(tmp_path / "m.relay"), *options)
    assert (result.exit_code, message in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr
