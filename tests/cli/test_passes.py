"""`apass passes`, and what the command line says of itself."""

from importlib.metadata import version

from apass.passes.registry import list_passes, register_pass, unregister_pass
from tests.cli.models import apass


def test_every_pass_is_listed_with_its_level() -> None:
    result = apass("passes")
    heads = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert (result.exit_code, [line.split()[0] for line in heads]) == (0, list_passes())
    # Other tests may have registered passes of their own in this process.
    assert [line for line in heads if "  level " not in line and not line.startswith("tests.")] == [
        "ConvertLayout  needs options",
        "MergeComposite  needs options",
        "SplitArgs  needs options",
    ]


def test_a_pass_is_listed_with_its_options_and_a_line_of_documentation() -> None:
    lines = apass("passes").stdout.splitlines()
    start = lines.index("onnx.Checker  level 0")
    assert lines[start + 1 : start + 5] == [
        "    Run `onnx.checker`, and fail if the model is not valid.",
        "    full_check: bool = false",
        "    skip_opset_compatibility_check: bool = false",
        "    check_custom_domain: bool = false",
    ]


def test_one_pass_is_shown_with_its_whole_documentation() -> None:
    result = apass("passes", "onnx.Inline")
    assert result.stdout.startswith("onnx.Inline  level 3\n    Put the bodies of model-local functions in")


def test_a_pass_that_cannot_be_made_keeps_no_other_from_the_list() -> None:
    def fail() -> None:
        raise OSError("no device")

    register_pass("demo.Broken", fail)
    try:
        result = apass("passes")
    finally:
        unregister_pass("demo.Broken")
    lines = result.stdout.splitlines()
    start = lines.index("demo.Broken")
    assert (result.exit_code, lines[start + 1]) == (0, "    OSError('no device')")
    assert "onnx.Checker  level 0" in lines


def test_an_unknown_pass_is_told() -> None:
    result = apass("passes", "Repeet")
    complaint = "apass: no pass is registered under the name 'Repeet'; did you mean 'Repeat'?\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", complaint)


def test_the_version_is_that_of_the_package() -> None:
    assert apass("--version").stdout == f"apass {version('apass')}\n"
