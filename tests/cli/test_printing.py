"""`apass opt --print-ir-before`, `--print-ir-after`, `--print-changed`."""

from pathlib import Path

import pytest

from tests.cli.models import apass, write_model

CHANGED = """\
IR changed by onnx.IdentityElimination (module 'm.onnx')
@@ -4,7 +4,5 @@
 >
 g (float[2] x) => (float[2] y) {
    [node] v0 = Relu (x)
-   [node_1] v1 = Identity (v0)
-   [node_2] v2 = Identity (v1)
-   [node_3] y = Neg (v2)
+   [node_3] y = Neg (v0)
 }
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_print_changed_shows_only_what_changed(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    pipeline = "onnx.NameFix,onnx.IdentityElimination,onnx.RemoveUnusedNodes"
    result = apass("opt", tmp_path, "-p", pipeline, "--print-changed", "--backend", backend)
    shown = result.stdout.partition("IR changed by onnx.IdentityElimination")
    assert (result.exit_code, "\n".join((shown[1] + shown[2]).splitlines()[:10])) == (0, CHANGED.rstrip("\n"))
    assert "RemoveUnusedNodes" not in result.stdout


def test_the_ir_is_printed_before_and_after_the_passes_that_are_named(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass(
        "opt", tmp_path, "-p", "onnx.NameFix,onnx.IdentityElimination", "--print-ir-before", "onnx.IdentityElimination",
        "--print-ir-after", "all", "--filter-functions", "main",
    )  # fmt: skip
    heads = [line for line in result.stdout.splitlines() if line.startswith("Print IR")]
    assert heads == [
        "Print IR after: onnx.NameFix (module 'm.onnx')",
        "Print IR before: onnx.IdentityElimination (module 'm.onnx')",
        "Print IR after: onnx.IdentityElimination (module 'm.onnx')",
        "Print IR after: sequential (module 'm.onnx')",
    ]


def test_a_pass_that_is_not_there_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-p", "onnx.NameFix", "--print-ir-after", "onnx.NamFix")
    assert (result.exit_code, result.stderr) == (
        2,
        "apass: --print-ir-after names 'onnx.NamFix', which is no pass; did you mean 'onnx.NameFix'?\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ["--print-ir-after", "all", "--filter-passes", "onnx.NameFix"],
            "--filter-passes needs --print-changed; --print-ir-before and -after name passes themselves",
        ),
        (
            ["--filter-functions", "main"],
            "--filter-functions needs --print-ir-before, --print-ir-after or --print-changed",
        ),
        (
            ["--filter-modules", "m.onnx"],
            "--filter-modules needs --print-ir-before, --print-ir-after or --print-changed",
        ),
        (
            ["--print-changed", "--filter-modules", "n.onnx"],
            "--filter-modules names 'n.onnx', which is no model of this run; did you mean 'm.onnx'?",
        ),
        (
            ["--print-changed", "--filter-passes", "onnx.NamFix"],
            "--filter-passes names 'onnx.NamFix', which is no pass",
        ),
    ],
)
def test_a_filter_that_would_filter_nothing_is_an_error(tmp_path: Path, options: list[str], complaint: str) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-p", "onnx.NameFix", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: {complaint}")
