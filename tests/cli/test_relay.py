"""`apass opt` on Relay text, ONNX converted to Relay, and errors in programs."""

from pathlib import Path

from onnx import helper

from apass.relay.ir.module import IRModule
from apass.relay.parser import parse
from tests.helpers.command_line import PROGRAM, apass, program, write_model
from tests.helpers.folders import files
from tests.helpers.relay.meaning import ops_of


def read(path: Path) -> IRModule:
    """Return the module in a file."""
    return parse(path.read_text())


def test_relay_result_is_written_beside_its_model(tmp_path: Path, backend: str) -> None:
    source = program(tmp_path / "m.relay")
    result = apass("opt", source, "--opt-level", 3, "--verify-outputs", "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    assert files(tmp_path) == ["m.opt.relay", "m.relay"]
    assert ops_of(read(tmp_path / "m.opt.relay")["main"]) == ["multiply", "add"]
    assert source.read_text() == PROGRAM
    assert "outputs equal" in result.stdout


def test_pipeline_of_relay_passes_runs_in_place(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    assert apass("opt", source, "-p", "FoldConstant", "--in-place").exit_code == 0
    assert ops_of(read(source)["main"]) == ["multiply", "multiply", "add"]


def test_onnx_is_converted_to_relay(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path / "m.onnx", "--to", "relay", "-o", tmp_path / "out")
    assert (result.exit_code, files(tmp_path)) == (0, ["m.onnx", "out/m.relay"])
    assert ops_of(read(tmp_path / "out" / "m.relay")["main"]) == ["nn.relu", "negative"]


def test_convert_writes_another_format(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("convert", tmp_path / "m.onnx", tmp_path / "m.relay")
    assert (result.exit_code, result.stderr) == (0, "")
    assert ops_of(read(tmp_path / "m.relay")["main"]) == ["nn.relu", "negative"]


def test_convert_rejects_wrong_arguments(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    (tmp_path / "bad.onnx").write_text("no model")
    for model, output, status, message in (
        (
            source,
            tmp_path / "m.json",
            2,
            "m.relay cannot be converted to a .json file; .relay files can be converted to .bc, ",
        ),
        (source, tmp_path, 2, "names no format; write a file with a suffix"),
        (tmp_path / "absent.onnx", tmp_path / "m.relay", 2, "no such file"),
        (tmp_path / "bad.onnx", tmp_path / "m.relay", 1, "failed"),
    ):
        result = apass("convert", model, output)
        assert (result.exit_code, message in result.stderr.replace("\n", " ")) == (status, True), result.stderr
    assert files(tmp_path) == ["bad.onnx", "m.relay"]


def test_onnx_and_relay_are_optimized_together(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    program(tmp_path / "b.relay")
    assert apass("opt", tmp_path, "-O", 3).exit_code == 0
    assert files(tmp_path) == ["a.onnx", "a.opt.onnx", "b.opt.relay", "b.relay"]


def test_invalid_programs_fail_and_others_are_written(tmp_path: Path) -> None:
    program(tmp_path / "good.relay")
    bad = program(tmp_path / "bad.relay", PROGRAM.replace("multiply(%x, %0);\n  %2", "multiplie(%x, %0);\n  %2"))
    untyped = program(tmp_path / "untyped.relay", PROGRAM.replace("add(%1, %2)", "add(%1, 1)"))
    result = apass("opt", tmp_path)
    assert (result.exit_code, (tmp_path / "good.opt.relay").exists()) == (1, True)
    for path, text in ((bad, "multiply"), (untyped, "int32")):
        assert path.name in result.stdout + result.stderr
        assert text in result.stdout + result.stderr


def test_conversion_names_operators_missing_in_relay(tmp_path: Path) -> None:
    nodes = [helper.make_node(op, ["x"], [op]) for op in ("StringNormalizer", "Det")]
    x, y = (helper.make_tensor_value_info(name, 1, None) for name in ("x", "Det"))
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    result = apass("opt", tmp_path / "m.onnx", "--to", "relay", "-o", tmp_path / "out")
    shown = result.stdout + result.stderr
    assert (result.exit_code, files(tmp_path)) == (1, ["m.onnx"])
    assert all(name in shown for name in ("StringNormalizer", "Det"))


def test_in_place_conversion_is_rejected(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    result = apass("opt", source, "--to", "relay", "--in-place")
    assert (result.exit_code, result.stderr) == (2, "apass: --in-place and --to cannot be used together\n")


def test_passes_shows_relay_passes() -> None:
    result = apass("passes", "FoldConstant")
    assert (result.exit_code, result.stdout.startswith("FoldConstant  level 2")) == (0, True)
