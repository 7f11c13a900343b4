"""`apass opt --print-ir-before`, `--print-ir-after`, `--print-changed`."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, write_model

PRINTING = "--print-ir-before, --print-ir-after, --print-ir-on-failure, --print-changed or --exec-on-change"

CHANGED = """\
IR changed by onnx.IdentityElimination (module 'm.onnx')
@@ -1,6 +1,4 @@ main
 g (float[2] x) => (float[2] y) {
    [node] v0 = Relu (x)
-   [node_1] v1 = Identity (v0)
-   [node_2] v2 = Identity (v1)
-   [node_3] y = Neg (v2)
+   [node_3] y = Neg (v0)
 }
"""


def test_print_changed_shows_only_changes(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    pipeline = "onnx.NameFix,onnx.IdentityElimination,onnx.RemoveUnusedNodes"
    result = apass("opt", tmp_path, "-p", pipeline, "--print-changed", "--backend", backend)
    shown = result.stdout.partition("IR changed by onnx.IdentityElimination")
    assert (result.exit_code, "\n".join((shown[1] + shown[2]).splitlines()[:9])) == (0, CHANGED.rstrip("\n"))
    assert "RemoveUnusedNodes" not in result.stdout


def test_exec_on_change_prints_output_of_command(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    code = "import sys; print(sys.argv[1:])"
    command = shlex.join([sys.executable, "-c", code, "{pass}", "{module}"])
    pipeline = "onnx.NameFix,onnx.IdentityElimination,onnx.RemoveUnusedNodes"
    result = apass("opt", tmp_path, "-p", pipeline, "--exec-on-change", command, "--filter-passes", "onnx.Id*")
    assert (result.exit_code, result.stdout.splitlines()[:2]) == (
        0,
        [
            "Command after: onnx.IdentityElimination (module 'm.onnx')",
            "['onnx.IdentityElimination', 'm.onnx']",
        ],
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "--exec-on-change is empty; expected a command, such as 'diff -u {before} {after}'"),
        ("diff '", 'cannot parse --exec-on-change "diff \'": No closing quotation; quote it as for a shell'),
        ("nodiff -u", "--exec-on-change: the command 'nodiff' is no program on PATH, and no executable file"),
    ],
)
def test_exec_on_change_rejects_unusable_command(tmp_path: Path, command: str, message: str) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "--exec-on-change", command)
    assert (result.exit_code, result.stderr) == (2, f"apass: {message}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_print_ir_before_and_after_named_passes(tmp_path: Path) -> None:
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


def test_print_ir_rejects_unknown_pass_before_the_run(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-p", "onnx.NameFix", "--print-ir-after", "onnx.NamFix")
    assert (result.exit_code, result.stderr) == (
        2,
        "apass: --print-ir-after: no pass is named 'onnx.NamFix'; did you mean 'onnx.NameFix'?\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--print-ir-after", "all", "--filter-passes", "onnx.NameFix"],
            "--filter-passes needs --print-changed or --exec-on-change; --print-ir-before and --print-ir-after take",
        ),
        (
            ["--filter-functions", "main"],
            f"--filter-functions needs {PRINTING}",
        ),
        (
            ["--filter-modules", "m.onnx"],
            f"--filter-modules needs {PRINTING}",
        ),
        (
            ["--print-changed", "--filter-modules", "n.onnx"],
            "--filter-modules: no model of this run is named 'n.onnx'; did you mean 'm.onnx'?",
        ),
        (
            ["--print-changed", "--filter-passes", "onnx.NamFix"],
            "--filter-passes: no pass is named 'onnx.NamFix'",
        ),
    ],
)
def test_filter_without_effect_is_rejected(tmp_path: Path, options: list[str], message: str) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-p", "onnx.NameFix", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: {message}")
