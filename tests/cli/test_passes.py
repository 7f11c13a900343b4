"""`apass passes`, and `apass --version`."""

import json
from functools import partial
from importlib.metadata import version
from typing import Any

import pytest

from apass import FunctionPass, PassContext, module_pass, view
from apass.passes.registry import list_passes, register_pass, unregister_pass
from tests.helpers.command_line import apass


@pytest.mark.slow
def test_passes_lists_each_pass_with_its_level() -> None:
    result = apass("passes")
    heads = [line for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert (result.exit_code, [line.split()[0] for line in heads]) == (0, list_passes())
    # Other tests may have registered passes in this process; their names start with "tests.".
    others = ("llvm.", "mlir.", "tests.", "tvm.", "xdsl.")
    assert [line for line in heads if "  level " not in line and not line.startswith(others)] == [
        "AnnotateTarget  needs options",
        "ConvertLayout  needs options",
        "MergeComposite  needs options",
        "SimplifyFCTranspose  needs options",
        "SplitArgs  needs options",
    ]


@pytest.mark.slow
def test_passes_lists_options_and_summary() -> None:
    lines = apass("passes").stdout.splitlines()
    start = lines.index("onnx.Checker  level 0")
    assert lines[start + 1 : start + 5] == [
        "    Run `onnx.checker`, and fail if the model is not valid.",
        "    full_check: bool = false",
        "    skip_opset_compatibility_check: bool = false",
        "    check_custom_domain: bool = false",
    ]


def test_passes_shows_the_contract_of_a_pass() -> None:
    @register_pass
    @module_pass(
        opt_level=1,
        name="demo.Sort",
        requires=["demo.flat"],
        ensures=["demo.sorted"],
        idempotent=True,
        runs_before=["demo.Use"],
    )
    def _sort(mod: dict[str, int], ctx: PassContext) -> dict[str, int]:
        return mod

    try:
        text = apass("passes", "demo.Sort").stdout.splitlines()[0]
        values = json.loads(apass("passes", "demo.Sort", "--output-format", "json").stdout)
    finally:
        unregister_pass("demo.Sort")
    assert text == (
        "demo.Sort  level 1, requires the property demo.flat, ensures the property demo.sorted, runs before demo.Use, "
        "idempotent"
    )
    assert values["contract"] == {
        "requires_properties": ["demo.flat"],
        "ensures_properties": ["demo.sorted"],
        "runs_before": ["demo.Use"],
        "idempotent": True,
    }


def test_passes_shows_full_documentation_of_one_pass() -> None:
    result = apass("passes", "onnx.Inline")
    assert result.stdout.startswith("onnx.Inline  level 2\n    Replace calls of model-local functions")


def test_undocumented_pass_shows_no_inherited_documentation() -> None:
    class Boom(FunctionPass[dict[str, int], int], name="demo.Boom", opt_level=1):
        rounds: int = 2

        def transform_function(self, func: int, mod: dict[str, int], ctx: PassContext) -> int:
            return func

    @register_pass
    @module_pass(opt_level=1, name="demo.Decorated")
    class Decorated:
        def transform_module(self, mod: dict[str, int], ctx: PassContext) -> dict[str, int]:
            return mod

    register_pass("demo.Thrice", partial(Boom, rounds=3))
    try:
        lines = apass("passes", "demo.*").stdout.splitlines()
        values = [json.loads(line) for line in apass("passes", "demo.*", "--output-format", "json").stdout.splitlines()]
    finally:
        for name in ("demo.Boom", "demo.Decorated", "demo.Thrice"):
            unregister_pass(name)
    assert lines.count("    no documentation") == 3
    assert [value["doc"] for value in values] == ["", "", ""]
    shown: list[Any] = [Boom(), Decorated()]
    assert [str(view(pass_)).endswith("  level 1") for pass_ in shown] == [True, True]


@pytest.mark.slow
def test_passes_lists_others_when_a_factory_fails() -> None:
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


def test_passes_suggests_name_for_unknown_pass() -> None:
    result = apass("passes", "Repeet")
    message = "apass: no pass is registered under the name 'Repeet'; did you mean 'Repeat'?\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_version_is_that_of_the_package() -> None:
    assert apass("--version").stdout == f"apass {version('apass')}\n"


def test_passes_lists_those_that_match_patterns() -> None:
    result = apass("passes", "onnx.Ident*", "Fast?ath")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "onnx.IdentityElimination  level 1",
        "    Remove Identity nodes.",
        "FastMath  level 4, requires InferType",
        "    Approximate exp, erf, tanh and softmax; results differ in the last digits.",
    ]
    result = apass("passes", "zz*")
    assert (result.exit_code, result.stderr) == (2, "apass: no pass matches 'zz*'; `apass passes` lists all\n")


def test_passes_are_printed_as_json() -> None:
    def fail() -> None:
        raise OSError("no device")

    register_pass("demo.Broken", fail)
    try:
        lines = apass("passes", "--output-format", "json").stdout.splitlines()
    finally:
        unregister_pass("demo.Broken")
    passes = {item["name"]: item for item in map(json.loads, lines)}
    assert set(passes) == {*list_passes(), "demo.Broken"}
    assert passes["demo.Broken"]["error"] == "OSError('no device')"
    assert (passes["FastMath"]["ir"], passes["FastMath"]["requires"]) == ("relay", ["InferType"])
    assert passes["Repeat"]["ir"] is None
    inline = passes["onnx.Inline"]
    assert inline.pop("doc").startswith("Replace calls of model-local functions")
    criteria = {"name": "criteria", "type": "callable | None", "required": False, "default": "none", "outside": None}
    nodes = {"name": "max_nodes", "type": "int", "required": False, "default": "100000", "outside": None}
    expected = {"name": "onnx.Inline", "level": 2, "requires": [], "ir": "onnx", "options": [criteria, nodes]}
    assert inline == {**expected, "contract": {}, "error": None}
    assert [option["required"] for option in passes["SplitArgs"]["options"]][:1] == [True]


def test_ir_selects_its_passes() -> None:
    for ir, expected in (("onnx", "onnx.Inline"), ("relay", "FoldConstant"), ("tvm", "tvm.pipeline.zero")):
        result = apass("passes", "--ir", ir, "--output-format", "json")
        described = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.exit_code == 0
        assert expected in [one["name"] for one in described]
        assert {one["ir"] for one in described} == {ir}
    result = apass("passes", "--ir", "other")
    assert (result.exit_code, "no passes of the IR 'other'; expected one of" in result.stderr) == (2, True)
    result = apass("passes", "--ir", "onnx", "onnx.Inline")
    assert (result.exit_code, "both select passes" in result.stderr) == (2, True)
