"""Snapshot cases and RUN lines, read and checked without pytest."""

import sys
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.testing.cases import Case, RunLine, has_run_lines, read_run_lines

CASE = """Sums of constants are folded.
-- pipeline --
FoldConstant
-- settings --
opt_level: 3

relay.FuseOps.max_depth: 2
-- input.relay --
def @main(%x: float32) { add(%x, multiply(2f, 3f)) }
"""
OUTPUT = """-- output --
#[version = "0.0.5"]
def @main(%x: float32) -> float32 {
  add(%x, 6f /* ty=float32 */) /* ty=float32 */
}
"""
MODEL = """// RUN: FoldConstant
// RUN: InferType --opt-level=0 --check-prefix=TYPED
// CHECK: add(%x, 6f
// TYPED: multiply(2f
def @main(%x: float32) { add(%x, multiply(2f, 3f)) }
"""


def write(folder: Path, text: str, name: str = "one.case") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_update_writes_the_output_once(tmp_path: Path) -> None:
    path = write(tmp_path, CASE)
    with pytest.raises(AssertionError, match="has no output; run pytest with --apass-update"):
        Case.read(path).check()
    assert (Case.read(path).update(), Case.read(path).update()) == (True, False)
    assert path.read_text() == CASE + OUTPUT
    Case.read(path).check()


def test_settings_are_json_values(tmp_path: Path) -> None:
    assert Case.read(write(tmp_path, CASE)).settings == {"opt_level": 3, "relay.FuseOps.max_depth": 2}


def test_wrong_output_is_shown_as_diff(tmp_path: Path) -> None:
    path = write(tmp_path, CASE + OUTPUT.replace("6f", "5f"))
    with pytest.raises(AssertionError) as caught:
        Case.read(path).check()
    assert str(caught.value).splitlines() == [
        f"{path} has another output; run pytest with --apass-update if the actual output is right",
        "--- expected",
        "+++ actual",
        "@@ -1,4 +1,4 @@",
        ' #[version = "0.0.5"]',
        " def @main(%x: float32) -> float32 {",
        "-  add(%x, 5f /* ty=float32 */) /* ty=float32 */",
        "+  add(%x, 6f /* ty=float32 */) /* ty=float32 */",
        " }",
    ]


def test_input_may_be_a_file(tmp_path: Path) -> None:
    model = write(tmp_path, "def @main(%x: float32) { add(%x, multiply(2f, 3f)) }", "model.relay")
    path = write(tmp_path, f"-- pipeline --\nFoldConstant\n-- input --\n{model.name}\n{OUTPUT}")
    Case.read(path).check()


def test_output_may_look_like_a_section(tmp_path: Path) -> None:
    text = '-- pipeline --\n-- input.json --\n{"f": "a\\n-- output --\\n-- input --"}\n'
    path = write(tmp_path, text)
    for _ in range(2):
        Case.read(path).update()
    assert path.read_text() == f"{text}-- output --\nf: a\n-- output --\n-- input --\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no section 'pipeline'; begin one with a line `-- pipeline --`"),
        ("-- pipeline --\nP\n-- output --\n", "has no section 'input'"),
        ("-- pipeline --\n-- pipeline --\n-- input.json --\n", "has two sections 'pipeline'; expected one"),
        ("-- pipeline --\nA\n-- inptu --\n", "has the unknown section 'inptu'; did you mean 'input'?"),
        ("-- pipeline --\n-- settings --\nlevel\n-- input.json --\n", "has the setting 'level'; expected `key: value`"),
        ("-- pipeline --\n-- settings --\na: b\n-- input.json --\n", "sets a to 'b'; expected a JSON value"),
    ],
)
def test_malformed_case_is_reported(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"one\.case") as caught:
        Case.read(path)
    assert str(caught.value).startswith(f"{path} {message}")


def test_run_lines_have_own_pipelines_and_prefixes(tmp_path: Path) -> None:
    path = write(tmp_path, MODEL, "model.relay")
    assert has_run_lines(path)
    lines = read_run_lines(path)
    assert [line.text for line in lines] == ["FoldConstant", "InferType --opt-level=0 --check-prefix=TYPED"]
    for line in lines:
        line.check()


def test_failed_directive_shows_message_and_result(tmp_path: Path) -> None:
    path = write(tmp_path, MODEL.replace("6f", "5f"), "model.relay")
    with pytest.raises(AssertionError) as caught:
        read_run_lines(path)[0].check()
    lines = str(caught.value).splitlines()
    assert lines[0] == "RUN: FoldConstant"
    assert lines[1].startswith(f"{path}:3: error: ")
    assert lines[-5:] == ["the result is", *OUTPUT.splitlines()[1:]]


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ("--check-prefix=NONE", AssertionError, "No check strings found with prefix NONE"),
        ("--no-such-option", ValueError, "has invalid options of FileCheck, --no-such-option"),
        ("--opt-level=high", ValueError, "sets opt_level to 'high'; expected a JSON value"),
        ("--opt-level=2.5", ValueError, "sets opt_level to 2.5; expected an integer"),
    ],
)
def test_wrong_options_are_reported(option: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    path = write(tmp_path, MODEL, "model.relay")
    with pytest.raises(error, match=message):
        RunLine(path, f"FoldConstant {option}").check()


def test_missing_filecheck_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "filecheck.matcher", None)
    with pytest.raises(apass.errors.MissingExtraError, match=r"pip install 'apass\[testing\]'"):
        read_run_lines(write(tmp_path, MODEL, "model.relay"))[0].check()


@pytest.mark.parametrize(("name", "data"), [("a.md", b"RUN: P"), ("a.relay", b"// no line"), ("a.py", b"# RUN: P")])
def test_other_files_have_no_run_lines(name: str, data: Any, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert not has_run_lines(tmp_path / name)


def test_binary_model_has_no_run_lines(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"\xff RUN: P")
    assert read_run_lines(tmp_path / "model.onnx") == []


def test_carriage_return_in_output_is_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "r.case"
    path.write_text('-- pipeline --\nSequential\n-- input.json --\n{"a": "q\\r"}\n')
    Case.read(path).update()
    Case.read(path).check()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("-- input.json --\n{", "cannot read the input: JSONDecodeError: Expecting property name"),
        ("-- input --\nnone.relay", "cannot read the input: FileNotFoundError: [Errno 2] No such file or directory"),
        ("-- input.nosuch --\n", "cannot read the input: AdapterError: no plug-in reads '.nosuch' files"),
    ],
)
def test_unreadable_input_is_one_message(section: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"-- pipeline --\nSequential\n{section}\n")
    with pytest.raises(apass.ApassError) as caught:
        Case.read(path).check()
    assert str(caught.value).startswith(f"{path}: {message}")


def test_lone_surrogate_leaves_the_case_unchanged(tmp_path: Path) -> None:
    path = write(tmp_path, '-- pipeline --\nSequential\n-- input.json --\n{"a": "\\ud800"}\n')
    before = path.read_text()
    with pytest.raises(apass.ApassError, match="the result has the lone surrogate"):
        Case.read(path).update()
    assert (path.read_text(), [item.name for item in tmp_path.iterdir()]) == (before, [path.name])
