"""`apass opt`: its files, its output and its exit status."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import onnx_ir as ir
import pytest

from apass.adapters.onnx import private_copy
from apass.adapters.onnx.storage import with_parts
from apass.core.context import PassContext
from apass.core.run import current_module_name
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass, unregister_pass
from tests.helpers.command_line import TEST_DATA, apass, nodes_of, process, program, write_external, write_model
from tests.helpers.folders import files
from tests.helpers.rows import row


def test_results_are_written_beside_unchanged_models(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    before = model.read_bytes()
    result = apass("opt", model)
    assert (result.exit_code, result.stderr) == (0, "")
    assert files(tmp_path) == ["m.onnx", "m.opt.onnx"]
    assert (model.read_bytes(), nodes_of(tmp_path / "m.opt.onnx")) == (before, ["Relu", "Neg"])


def test_results_keep_the_folders_of_their_models(tmp_path: Path, backend: str) -> None:
    for name in ("a/m.onnx", "b/m.onnx", "b/c/n.onnx"):
        write_model(tmp_path / "in" / name)
    result = apass("opt", tmp_path / "in", "-o", tmp_path / "out", "--backend", backend, "--jobs", 2)
    assert (result.exit_code, files(tmp_path / "out")) == (0, ["a/m.onnx", "b/c/n.onnx", "b/m.onnx"])
    assert {tuple(nodes_of(path)) for path in (tmp_path / "out").rglob("*.onnx")} == {("Relu", "Neg")}


@pytest.mark.slow
def test_suffixes_match_in_any_case(tmp_path: Path) -> None:
    program(tmp_path / "in" / "a.Relay")
    write_model(tmp_path / "in" / "M.ONNX")
    assert apass("opt", tmp_path / "in").exit_code == 0
    assert files(tmp_path / "in") == ["M.ONNX", "M.opt.ONNX", "a.Relay", "a.opt.Relay"]
    assert nodes_of(tmp_path / "in" / "M.opt.ONNX") == ["Relu", "Neg"]
    assert apass("opt", tmp_path / "in", "-o", tmp_path / "out", "--executor", "process").exit_code == 0
    assert apass("opt", tmp_path / "in" / "*.ONNX", "-o", tmp_path / "file.ONNX").exit_code == 0
    assert apass("opt", tmp_path / "in" / "M.ONNX", "-o", tmp_path / "as", "--to", "RELAY").exit_code == 0
    assert files(tmp_path / "out") == ["M.ONNX", "a.Relay"]
    assert (files(tmp_path / "as"), nodes_of(tmp_path / "file.ONNX")) == (["M.relay"], ["Relu", "Neg"])
    data = (tmp_path / "in" / "M.ONNX").read_bytes()
    assert apass("opt", "-", "--from", "ONNX", stdin=data).stdout_bytes == (tmp_path / "file.ONNX").read_bytes()
    assert apass("plan", tmp_path / "in" / "M.ONNX").stdout.startswith("onnx: ")


def test_in_place_replaces_only_the_models(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    assert apass("opt", tmp_path / "*.onnx", "--in-place").exit_code == 0
    assert (files(tmp_path), nodes_of(model)) == (["m.onnx"], ["Relu", "Neg"])


def test_in_place_writes_through_a_link(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    link = tmp_path / "links" / "l.onnx"
    link.parent.mkdir()
    link.symlink_to(model)
    assert apass("opt", link, "--in-place").exit_code == 0
    assert (link.is_symlink(), nodes_of(model)) == (True, ["Relu", "Neg"])


def test_second_run_ignores_earlier_results(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    runs = [apass("opt", tmp_path, "-o", tmp_path / "out").exit_code for _ in range(2)]
    assert (runs, files(tmp_path)) == ([0, 0], ["m.onnx", "out/m.onnx"])
    runs = [apass("opt", tmp_path / "m.onnx").exit_code, apass("opt", tmp_path / "*.onnx").exit_code]
    assert (runs, files(tmp_path)) == ([0, 0], ["m.onnx", "m.opt.onnx", "out/m.onnx"])


def test_model_named_several_times_is_optimized_once(tmp_path: Path) -> None:
    model = write_model(tmp_path / "a" / "m.onnx")
    result = apass("opt", model, model.parent, tmp_path / "a" / ".." / "a" / "m.onnx", tmp_path / "*" / "m.onnx")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        "1 of 1 models written, 4 nodes before, 2 after",
    )


def test_corrupt_model_fails_and_others_are_written(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "good.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x09\x12 this is no model")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--backend", backend)
    out = result.stdout
    assert (result.exit_code, files(tmp_path / "out")) == (1, ["good.onnx"])
    assert result.stderr.startswith("failed bad.onnx: ")
    assert f"failed bad.onnx: AdapterError: {tmp_path / 'bad.onnx'}: not an ONNX model" in out
    assert out.splitlines()[-1] == "1 of 2 models written, 4 nodes before, 2 after, 1 failed"


def test_failed_pass_is_shown_with_its_notes(tmp_path: Path) -> None:
    write_model(tmp_path / "good.onnx")
    model = write_model(tmp_path / "wrong.onnx")
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    result = apass("opt", tmp_path, "-p", "onnx.Checker", "-o", tmp_path / "out")
    assert (result.exit_code, files(tmp_path / "out")) == (1, ["good.onnx"])
    shown = result.stdout[result.stdout.index("failed wrong.onnx") :].splitlines()
    assert shown[0] == "failed wrong.onnx: in pass 'sequential > onnx.Checker', module 'wrong.onnx'"
    assert shown[1].startswith("    AdapterError: CheckerPass of onnx_ir failed on model 'wrong.onnx': ")


@pytest.mark.parametrize("width", [20, 40, 80])
def test_table_shows_names_at_any_width(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    write_model(tmp_path / "resnet50-v1-12-quantized-int8-model.onnx")
    write_model(tmp_path / "a\x1b[2J\u202eb.onnx")
    table = apass("opt", tmp_path, "-o", tmp_path / "out").stdout.splitlines()[:5]
    assert max(map(len, table)) <= width
    assert re.search("resnet.*onnx", table[-1] + table[-2])
    assert r"a\x1b" in table[-1] + table[-2]


def test_table_has_a_row_for_each_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    for index in range(3):
        write_model(tmp_path / f"m{index}.onnx", identities=index)
    out = apass("opt", tmp_path, "-o", tmp_path / "out").stdout
    rows = [re.sub(r"\d+\.\d{3}", "S", " ".join(line.split())) for line in out.splitlines()]
    assert [row for row in rows if row and set(row) != {"─"}] == [
        "model nodes bytes seconds result changed by",
        "m0.onnx 2 76 S ok unchanged, copied",
        "m1.onnx 3 -> 2 96 -> 74 S ok onnx.IdentityElimination",
        "m2.onnx 4 -> 2 116 -> 74 S ok onnx.IdentityElimination",
        "3 of 3 models written, 9 nodes before, 6 after",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 200])
def test_long_table_shows_failures_and_largest_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    for index in range(150):
        write_model(tmp_path / f"m{index:03}.onnx", identities=5 if index == 149 else min(index // 50, 1))
    (tmp_path / "m100.onnx").write_bytes(b"\x08\x09\x12 no model")
    monkeypatch.setenv("COLUMNS", str(width))
    lines = apass("opt", tmp_path, "-o", tmp_path / "out").stdout.splitlines()
    assert max(len(line) for line in lines if ".onnx  " in line) <= width
    assert sum(".onnx  " in line for line in lines) == 40
    assert {line.split()[0] for line in lines if "AdapterError" in line or " 7 " in line} == {
        "m100.onnx",
        "m149.onnx",
        "failed",
    }
    assert "and 60 more that changed; --all lists them" in lines
    assert "and 50 models that did not change; --all lists them" in lines
    more = apass("opt", tmp_path, "-o", tmp_path / "out", "--all").stdout.splitlines()
    assert (sum(".onnx  " in line for line in more), "--all" in "".join(more)) == (150, False)


@pytest.mark.process
def test_long_table_in_a_pipe_has_all_changes(tmp_path: Path) -> None:
    names = [f"{'very_long_name_' * 8}{index:02}.onnx" for index in range(50)]
    for name in names:
        write_model(tmp_path / name)
    code, out, err = process("opt", tmp_path, "-o", tmp_path / "out", body="import os; os.environ.pop('COLUMNS', None)")
    rows = [line.split()[0] for line in out.splitlines() if line.strip().startswith("very")]
    assert (code, err, rows) == (0, "", names)


def test_unchanged_file_is_copied_bytewise(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx", identities=0)
    # A field that onnx does not know, which writing the model anew would lose.
    data = model.read_bytes() + b"\xf8\x7f\x01"
    model.write_bytes(data)
    result = apass("opt", model, "-o", tmp_path / "out")
    assert "ok unchanged, copied" in result.stdout
    assert (tmp_path / "out" / "m.onnx").read_bytes() == data


def test_unchanged_file_stays_in_place(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx", identities=0)
    before = model.stat()
    result = apass("opt", model, "--in-place", "--journal", tmp_path / "journal")
    assert ("ok unchanged" in result.stdout, "copied" in result.stdout) == (True, False)
    assert (model.stat().st_ino, model.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert "by an earlier run" in apass("opt", model, "--in-place", "--journal", tmp_path / "journal").stdout


def test_unchanged_model_with_external_weights_is_written(tmp_path: Path) -> None:
    model = write_external(tmp_path / "models" / "m.onnx")
    result = apass("opt", model, "-o", tmp_path / "out")
    assert ("ok unchanged" in result.stdout, "copied" in result.stdout) == (True, False)
    assert files(tmp_path / "out") == ["m.onnx", "m.onnx.data"]


@pytest.mark.process
def test_verify_outputs_reports_equal_outputs(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--verify-outputs")
    assert (result.exit_code, "ok outputs equal" in result.stdout, files(tmp_path / "out")) == (0, True, ["m.onnx"])


@pytest.fixture
def breaking_pass() -> Iterator[str]:
    """Register a pass that changes the meaning of a model, and yield its name."""

    @register_pass
    @module_pass(opt_level=0, name="Break")
    def broken(mod: ir.Model, ctx: PassContext) -> ir.Model:
        result = ir.from_proto(ir.to_proto(mod))
        for node in result.graph:
            node.op_type = {"Neg": "Abs"}.get(node.op_type, node.op_type)
        return result

    yield broken.info.name
    unregister_pass("Break")


@pytest.mark.process
def test_result_with_changed_outputs_is_not_written(tmp_path: Path, breaking_pass: str, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    arguments = ("opt", tmp_path, "-p", breaking_pass, "-o", tmp_path / "out", "--backend", backend)
    result = apass(*arguments, "--verify-outputs")
    assert (result.exit_code, result.stderr.split(":")[0], files(tmp_path / "out")) == (1, "failed m.onnx", [])
    assert "failed m.onnx: OutputsChangedError: the result computes something else: outputs changed" in result.stdout


@pytest.mark.process
@pytest.mark.slow
def test_proofs_are_listed_for_each_pass(tmp_path: Path) -> None:
    model = tmp_path / "m.relay"
    body = "exp(add(multiply(%x, 1f), 0f))"
    model.write_text(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {{ {body} }}\n')
    result = apass("opt", model, "-o", tmp_path / "o.relay", "--verify-outputs=prove", "-p", "SimplifyExpr", "-O", 3)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("\nSimplifyExpr: proved for all arguments, with floats as real numbers\n")


@pytest.mark.process
@pytest.mark.slow
def test_each_pass_is_compared_and_reduced(tmp_path: Path, breaking_pass: str) -> None:
    write_model(tmp_path / "m.onnx")
    pipeline = f"onnx.IdentityElimination,{breaking_pass},onnx.RemoveUnusedNodes"
    arguments = ("opt", tmp_path / "m.onnx", "-p", pipeline, "-o", tmp_path / "out")
    failed = tmp_path / "failed"
    result = apass(*arguments, "--verify-outputs=each", "--reproducer", failed)
    assert (result.exit_code, result.stderr.split(":")[0], files(tmp_path / "out")) == (1, "failed m.onnx", [])
    assert "OutputsChangedError: pass 'Break' changed the outputs: output" in result.stdout
    folder = failed / "m.onnx" / "1_Break"
    assert f": {folder / 'reduced'}\nto reproduce: apass replay {folder}\n" in result.stdout
    assert "fails the same way" in apass("replay", folder / "reduced").stdout


def test_timing_sums_each_pass_over_all_models(tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        write_model(tmp_path / name)
    out = apass("opt", tmp_path, "-o", tmp_path / "out", "-p", "onnx.IdentityElimination", "--timing").stdout
    shown = [line.split("%")[-1].strip() for line in out[out.index("wall ms") :].splitlines()[1:]]
    assert shown == ["sequential (2 calls)", "onnx.IdentityElimination (2 calls)", "(hooks of instruments)"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["Relu", "Neg"]),
        (["--disable", "onnx.IdentityElimination"], ["Relu", "Identity", "Identity", "Neg"]),
        (["--opt-level", 0], ["Relu", "Identity", "Identity", "Neg"]),
        (["--opt-level", 0, "--require", "onnx.IdentityElimination"], ["Relu", "Neg"]),
    ],
)
def test_context_options_select_the_passes(tmp_path: Path, options: list[object], expected: list[str]) -> None:
    model = write_model(tmp_path / "m.onnx")
    assert apass("opt", model, "-p", "onnx.IdentityElimination", *options).exit_code == 0
    assert nodes_of(tmp_path / "m.opt.onnx") == expected


def test_all_test_models_of_onnx_are_written(tmp_path: Path, backend: str) -> None:
    folders = [TEST_DATA / "simple", TEST_DATA / "pytorch-operator"]
    result = apass("opt", *folders, "-o", tmp_path, "--backend", backend)
    expected = sorted(str(path.relative_to(TEST_DATA)) for folder in folders for path in folder.rglob("*.onnx"))
    assert (result.exit_code, len(expected) > 50, files(tmp_path)) == (0, True, expected)


def test_unmatched_disabled_name_is_one_warning_line(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x09\x12 no model")
    result = apass("opt", tmp_path, "-p", "Sequential{name=zzzz}(onnx.NameFix)", "--disable", "zzzz")
    warning = "apass: warning: disabled_pass names 'zzzz', but no pass of that name ran or is registered"
    assert (result.exit_code, result.stderr.splitlines().count(warning)) == (1, 1)


@pytest.mark.parametrize("options", [(), ("--timeout", 60)])
def test_traceback_of_pass_has_its_frames_only(tmp_path: Path, options: tuple[object, ...]) -> None:
    @register_pass
    @module_pass(opt_level=0, name="Fail")
    async def failing(mod: ir.Model, ctx: PassContext) -> ir.Model:
        await anyio.lowlevel.checkpoint()
        raise ValueError("no good")

    try:
        result = apass("opt", write_model(tmp_path / "m.onnx"), "-p", "Fail", "-v", *options)
    finally:
        unregister_pass("Fail")
    assert re.findall(r'File "(.+)", line', result.stdout) == [__file__]


@pytest.fixture
def exiting_pass() -> Iterator[str]:
    """Register a pass that exits for the model `a.onnx`, and yield its name."""

    @register_pass
    @module_pass(opt_level=0, name="Exit")
    def exiting(mod: ir.Model, ctx: PassContext) -> ir.Model:
        if current_module_name() == "a.onnx":
            sys.exit(5)
        return mod

    yield exiting.info.name
    unregister_pass("Exit")


def test_exit_of_pass_fails_its_model_only(tmp_path: Path, exiting_pass: str, backend: str) -> None:
    for name in ("a.onnx", "b.onnx"):
        write_model(tmp_path / name)
    result = apass("opt", tmp_path, "-p", exiting_pass, "-o", tmp_path / "out", "--backend", backend)
    assert (result.exit_code, files(tmp_path / "out")) == (1, ["b.onnx"])
    message = "PassExitedError: the pass exited with 5; a pass that fails must raise an exception"
    assert f"failed a.onnx: in pass 'sequential > Exit', module 'a.onnx'\n    {message}\n" in result.stdout


def test_larger_results_are_not_written(tmp_path: Path) -> None:
    def grow(mod: Any, ctx: PassContext) -> Any:
        graph = private_copy(mod.graph)
        graph.register_initializer(ir.Value(name="w", const_value=ir.tensor(np.ones(50, np.float32), name="w")))
        return with_parts(mod, graph, mod.functions.values())

    path = write_model(tmp_path / "m.onnx")
    register_pass("test.Grow", lambda: module_pass(grow, opt_level=0, name="test.Grow"))
    try:
        rows = {(): 328, ("--max-growth", "0"): 116, ("--max-growth", "5%"): 116, ("--max-growth", "300"): 328}
        for options, size in rows.items():
            with row(options):
                output = tmp_path / f"{len(options)}.onnx"
                result = apass("opt", path, "-o", output, "-p", "test.Grow", *options)
                assert result.exit_code == 0, result.output
                assert output.stat().st_size == size
                assert ("kept, the result has 212" in result.stdout) == (size == 116)
        before = path.read_bytes()
        assert apass("opt", path, "--in-place", "-p", "test.Grow", "--max-growth", "0").exit_code == 0
        assert path.read_bytes() == before
        wrong = apass("opt", path, "-p", "test.Grow", "--max-growth", "x")
        assert wrong.exit_code == 2
        assert "--max-growth takes a number of bytes or a percentage, such as 4096 or 5%, got 'x'" in wrong.output
    finally:
        unregister_pass("test.Grow")
