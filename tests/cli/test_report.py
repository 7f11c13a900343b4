"""`apass opt --report`: the page of ONNX and Relay models, and wrong options."""

from pathlib import Path

from tests.helpers.command_line import TEST_DATA, apass, program, write_model
from tests.helpers.folders import files
from tests.helpers.reports import index_of, texts_of


def test_report_has_all_formats_and_failed_models(tmp_path: Path, backend: str) -> None:
    program(tmp_path / "in" / "m.relay")
    write_model(tmp_path / "in" / "a.onnx")
    (tmp_path / "in" / "bad.onnx").write_bytes(b"\x08\x09\x12 this is no model")
    page = tmp_path / "report.html"
    result = apass("opt", tmp_path / "in", "-o", tmp_path / "out", "-O", 3, "--report", page, "--backend", backend)
    assert (result.exit_code, f"report: {page}" in result.stdout.splitlines()) == (1, True)
    text = page.read_text()
    index, texts = index_of(text), texts_of(text)
    assert index["modules"] == ["a.onnx", "m.relay", "bad.onnx"]
    [[module, failure]] = index["moduleFailures"]
    assert (index["modules"][module], index["failures"][failure][0]) == ("bad.onnx", "AdapterError")
    first = index["runs"]["module"].index(1)
    sides = [texts[int(index["runs"][column][first])] for column in ("before", "after")]
    assert [side.count("multiply") for side in sides] == [2, 1]
    assert {index["names"][name] for name in index["runs"]["name"]} >= {"onnx.IdentityElimination", "FoldConstant"}
    assert {index["names"][remark[3]] for remark in index["remarks"]} >= {"onnx.IdentityElimination", "FoldConstant"}


def test_report_has_histories_of_nodes(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    page = tmp_path / "report.html"
    result = apass("opt", tmp_path / "a.onnx", "-o", tmp_path / "out", "--report", page, "--provenance")
    assert result.exit_code == 0
    index = index_of(page.read_text())
    shown = {index["names"][number] for numbers in index["provenance"]["0"].values() for number in numbers}
    assert any(text.endswith("in main: from the input; removed by onnx.IdentityElimination") for text in shown)
    result = apass("opt", tmp_path / "a.onnx", "-o", tmp_path / "out", "--provenance")
    assert (result.exit_code, "--provenance adds to the page of --report" in result.stderr) == (2, True)


def test_report_stores_each_text_once(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    model = TEST_DATA / "light" / "light_squeezenet.onnx"
    assert apass("opt", model, "-o", tmp_path / "out", "--report", page).exit_code == 0
    index, texts = index_of(page.read_text()), texts_of(page.read_text())
    assert len(texts) == len(set(texts)) < len(index["runs"]["name"])
    assert texts[int(index["runs"]["before"][0])].startswith("<\n   ir_version: 3")


def test_report_has_a_failure_once_with_notes(tmp_path: Path) -> None:
    model = write_model(tmp_path / "wrong.onnx")
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    page = tmp_path / "report.html"
    assert apass("opt", model, "-p", "onnx.Checker", "--report", page).exit_code == 1
    index = index_of(page.read_text())
    assert index["moduleFailures"] == []
    assert {kind for kind, _, _, _ in index["failures"]} == {index["failures"][0][0]}
    assert any("module 'wrong.onnx'" in note for note in index["failures"][0][2])


def test_report_rejects_a_folder(tmp_path: Path) -> None:
    result = apass("opt", program(tmp_path / "m.relay"), "--report", tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"--report must name a file, but {tmp_path} is a folder" in result.stderr


def test_unwritable_report_is_rejected_before_the_run(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    page = source / "report.html"
    result = apass("opt", source, "--report", page)
    assert (result.exit_code, result.stderr.count("\n"), files(tmp_path)) == (2, 1, ["m.relay"])
    assert f"--report cannot write {page}: " in result.stderr
