"""Models on standard input and output, named results, and pipelines in files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apass import PassContext, module_pass, register_pass, unregister_pass
from tests.helpers.command_line import apass, nodes_of, write_external, write_model
from tests.helpers.folders import files
from tests.helpers.repository import ROOT


def test_output_with_model_suffix_is_a_file(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    assert apass("opt", model, "-o", tmp_path / "new" / "out.onnx").exit_code == 0
    assert (files(tmp_path), nodes_of(tmp_path / "new" / "out.onnx")) == (["m.onnx", "new/out.onnx"], ["Relu", "Neg"])


def test_output_is_a_folder_if_it_exists(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    (tmp_path / "out.onnx").mkdir()
    assert apass("opt", model, "-o", tmp_path / "out.onnx").exit_code == 0
    assert files(tmp_path) == ["m.onnx", "out.onnx/m.onnx"]


def test_output_file_is_no_model_of_its_folder(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    for _ in range(2):
        assert apass("opt", tmp_path, "-o", tmp_path / "out.onnx").exit_code == 0
    assert files(tmp_path) == ["m.onnx", "out.onnx"]


def test_suffix_of_output_file_selects_the_format(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    assert apass("opt", model, "-o", tmp_path / "out.relay").exit_code == 0
    assert "nn.relu" in (tmp_path / "out.relay").read_text()


def test_model_is_piped_without_other_output(tmp_path: Path, backend: str) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", "-", "--from", "onnx", "--timing", "--backend", backend, stdin=model.read_bytes())
    out = tmp_path / "out.onnx"
    out.write_bytes(result.stdout_bytes)
    assert (result.exit_code, nodes_of(out)) == (0, ["Relu", "Neg"])
    assert ("1 of 1 models written" in result.stderr, "wall ms" in result.stderr) == (True, True)


def test_relay_is_piped_as_text(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--to", "relay", "-o", "-")
    assert (result.exit_code, result.stdout.startswith("#[version"), "models written" in result.stdout) == (
        0,
        True,
        False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such devices")
def test_device_gets_the_result(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "-o", os.devnull)
    assert (result.exit_code, "1 of 1 models written" in result.stdout) == (0, True)
    assert (Path(os.devnull).is_char_device(), files(tmp_path)) == (True, ["m.onnx"])
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    assert apass("opt", model, "--to", "relay", "-o", f"/dev/fd/{writer}").exit_code == 0
    assert os.read(reader, 100).startswith(b"#[version")
    for descriptor in (reader, writer):
        os.close(descriptor)
    result = apass("opt", model, write_model(tmp_path / "n.onnx"), "-o", os.devnull)
    expected = f"apass: -o {os.devnull} writes one model, got 2; name one, or a folder with -o DIR\n"
    assert (result.exit_code, result.stderr) == (2, expected)


def test_failed_model_leaves_the_pipe_empty() -> None:
    result = apass("opt", "-", "--from", "onnx", stdin=b"\x08\x09\x12 no model")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "failed stdin.onnx: AdapterError" in result.stderr


def test_failed_pass_is_reported_for_a_piped_model(tmp_path: Path) -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def fail(mod: Any, ctx: PassContext) -> Any:
        raise UnprintableError

    register_pass(module_pass(fail, opt_level=0, name="test_streams.Fail"))
    model = write_model(tmp_path / "m.onnx").read_bytes()
    result = apass("opt", "-", "--from", "onnx", "-p", "test_streams.Fail", stdin=model)
    unregister_pass("test_streams.Fail")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        "failed stdin.onnx: in pass 'sequential > test_streams.Fail', module 'stdin.onnx'\n"
        "    UnprintableError: (its text raised RuntimeError)\n"
    ) in result.stderr


def test_piped_model_cannot_have_external_weights(tmp_path: Path) -> None:
    model = write_external(tmp_path / "m.onnx")
    result = apass("opt", "-", "--from", "onnx", stdin=model.read_bytes())
    assert (result.exit_code, result.stdout) == (1, "")
    assert "    a model on standard input cannot have external weights; name its file instead\n" in result.stderr


@pytest.mark.parametrize(
    ("source_format", "data", "message"),
    [
        ("onnx", b"junk", "standard input: not an ONNX model"),
        ("relay", b"def @main(%x: ) { %x }", " --> standard input:1:15"),
    ],
)
@pytest.mark.parametrize("options", ["-v", "-q", "--output-format json -o results", "--compare onnx.Inline"])
def test_errors_name_standard_input(
    source_format: str, data: bytes, message: str, options: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = apass("opt", "-", "--from", source_format, *options.split(), stdin=data)
    assert (result.exit_code, message in result.output, "/apass-" in result.output) == (1, True, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-"],
            (
                "- is standard input, whose format no suffix shows; "
                "add --from FORMAT with one of bc, json, ll, mlir, mlirbc, onnx, relax, relay"
            ),
        ),
        (["-", "-", "--from", "onnx"], "- is standard input, and must be the only model; got 2"),
        (["-", "--from", "onx"], "--from: no model format is named 'onx'; did you mean 'onnx'?"),
        (["-", "--from", "onnx"], "standard input is empty; expected a model"),
        (
            ["-", "--from", "onnx", "--in-place"],
            "--in-place needs files, and cannot be used with -; leave one of them out",
        ),
        (
            ["a.onnx", "-o", "-", "--journal", "j"],
            "--journal needs files, and cannot be used with -; leave one of them out",
        ),
        (["a.onnx", "b.onnx", "-o", "-"], "-o - writes one model, got 2; name one, or a folder with -o DIR"),
        (
            ["a.onnx", "b.onnx", "-o", "c.onnx"],
            "-o c.onnx is the file of one result, got 2 models; name a folder, or one model",
        ),
        (
            ["a.onnx", "-o", "c.relay", "--to", "onnx"],
            "-o c.relay and --to onnx name different formats; leave out --to, or change the suffix",
        ),
        (
            ["a.onnx", "--from", "onnx"],
            "--from onnx is for a model on standard input; write - in place of it",
        ),
        (["a.onnx", "-p", "@none.txt"], "cannot read the pipeline @none.txt: No such file or directory"),
    ],
)
def test_misused_streams_are_reported_before_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "b.onnx"):
        write_model(tmp_path / name)
    result = apass("opt", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")
    assert files(tmp_path) == ["a.onnx", "b.onnx"]


@pytest.mark.process
@pytest.mark.slow
def test_closed_pipe_ends_without_a_traceback(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "apass", "opt", str(model), "-o", "-"]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    os.close(write)
    assert (done.returncode, "Traceback" in done.stderr, "models written" in done.stderr) == (4, False, True)


@pytest.mark.process
@pytest.mark.slow
def test_prints_of_libraries_do_not_reach_the_pipe(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx", identities=0)
    code = "import os, apass\n"
    code += "def noise(mod, ctx):\n    print('noise'); os.write(1, b'noise'); return mod\n"
    code += "apass.register_pass(apass.module_pass(noise, opt_level=0, name='Noise'))\n"
    code += "from apass.cli import main; main()"
    command = [sys.executable, "-c", code, "opt", str(model), "-o", "-", "-p", "Noise"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr.count(b"noise")) == (0, model.read_bytes(), 2)


@pytest.mark.slow
def test_loaded_modules_do_not_print_to_the_pipe(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx", identities=0)
    (tmp_path / "noisy_passes.py").write_text("print('noise')\n")
    # In a process of its own: a loaded module remains loaded.
    command = [sys.executable, "-c", "from apass.cli import main; main()", "--load", str(tmp_path / "noisy_passes.py")]
    done = subprocess.run([*command, "opt", str(model), "-o", "-"], capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr.count(b"noise")) == (0, model.read_bytes(), 1)


def test_pipeline_is_read_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m.onnx")
    (tmp_path / "p.txt").write_text("\ufeffonnx.IdentityElimination,  # the only one\nonnx.NameFix\n", encoding="utf-8")
    assert apass("opt", "m.onnx", "-p", "@p.txt").exit_code == 0
    assert nodes_of(tmp_path / "m.opt.onnx") == ["Relu", "Neg"]
    planned = apass("plan", "-p", "@p.txt").stdout.split()
    assert planned == ["run", "sequential", "run", "onnx.IdentityElimination", "run", "onnx.NameFix"]
    assert "@p.txt" in apass("opt", "m.onnx", "--compare", "@p.txt").stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# later\n", "the pipeline @p.txt is empty; expected the name of a pass in the file"),
        (
            " " * (2**20 + 1),
            "cannot read the pipeline @p.txt: the file is too large; expected at most 1,048,576 characters",
        ),
    ],
)
def test_unusable_pipeline_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.txt").write_text(text)
    result = apass("plan", "-p", "@p.txt")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")
