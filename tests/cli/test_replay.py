"""`apass opt --reproducer` and `apass replay`: in processes of their own, on real models."""

from pathlib import Path
from platform import python_version

import pytest

from tests.cli.models import apass, files, process, write_model

RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {
  %0 = multiply(%x, 2f);
  add(%0, %x)
}
"""

PASSES = """
import apass

@apass.register_pass
@apass.function_pass(opt_level=0)
class NoMultiply:
    def __init__(self, what: str = "multiply") -> None:
        self.what = what

    async def transform_function(self, func, mod, ctx):
        if self.what in str(func):
            raise NotImplementedError(f"{self.what} in {len(str(func).splitlines())} lines")
        return func
"""


def broken(path: Path) -> Path:
    """Write a model that `onnx.Checker` does not take."""
    model = write_model(path)
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    return model


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_onnx_model_that_a_pass_failed_on_fails_again_in_another_process(tmp_path: Path, backend: str) -> None:
    broken(tmp_path / "a" / "bad.onnx")
    write_model(tmp_path / "a" / "good.onnx")
    out = tmp_path / "out"
    pipeline = "onnx.IdentityElimination,onnx.Checker{check_custom_domain=true},onnx.RemoveUnusedNodes"
    arguments = ["opt", tmp_path / "a", "-o", out, "-p", pipeline, "--reproducer", tmp_path / "r", "--backend", backend]
    result = apass(*arguments)
    folder = tmp_path / "r" / "bad.onnx" / "1_onnx.Checker"
    assert (result.exit_code, files(out)) == (1, ["good.onnx"])
    assert files(tmp_path / "r") == [
        f"bad.onnx/1_onnx.Checker/{name}" for name in ("module.onnx", "reproducer.json", "traceback.txt")
    ]
    assert result.stdout.splitlines()[-1] == f"to see it fail again: apass replay {folder}"
    last = "pass onnx.Checker at 0:sequential/1:onnx.Checker on bad.onnx: fails the same way"
    again = apass("replay", folder)
    assert (again.exit_code, again.stdout.splitlines()[-1], again.stderr) == (1, last, "")
    assert "onnx.onnx_cpp2py_export.checker.ValidationError: No Op registered for Ngg" in again.stdout
    write_model(folder / "module.onnx")
    mended = apass("replay", folder)
    fine = last.replace("fails the same way", "does not fail any more")
    assert (mended.exit_code, mended.stdout.splitlines()[0], mended.stderr) == (0, fine, "")


def test_a_pass_of_ones_own_fails_again_in_another_process_by_the_module_that_defines_it(tmp_path: Path) -> None:
    (tmp_path / "my_passes.py").write_text(PASSES)
    (tmp_path / "m.relay").write_text(RELAY)
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    pipeline = "InferType,NoMultiply{what=multiply}"
    arguments = ["opt", tmp_path / "m.relay", "-p", pipeline, "--reproducer", tmp_path / "r"]
    status, shown, _ = process(*arguments, body=f"{path}; import my_passes")
    folder = tmp_path / "r" / "m.relay" / "1_NoMultiply"
    assert (status, (folder / "module.relay").is_file()) == (1, True), shown
    text = (folder / "module.relay").read_text()
    (folder / "module.relay").write_text(text.replace("@main", "@main2"))
    status, shown, error = process("replay", folder, body=path)
    assert (status, error) == (1, "")
    assert shown.splitlines()[-3:] == [
        "NotImplementedError: multiply in 4 lines",
        "in pass 'NoMultiply', function 'main2', module 'm.relay'",
        "pass NoMultiply at 0:sequential/1:NoMultiply on m.relay: fails the same way",
    ]


def test_another_failure_is_told_with_the_one_then(tmp_path: Path) -> None:
    broken(tmp_path / "bad.onnx")
    apass("opt", tmp_path / "bad.onnx", "-p", "onnx.Checker", "--reproducer", tmp_path / "r")
    folder = tmp_path / "r" / "bad.onnx" / "0_onnx.Checker"
    model = folder / "module.onnx"
    model.write_bytes(model.read_bytes().replace(b"Ngg", b"Nog"))
    facts = folder / "reproducer.json"
    facts.write_text(facts.read_text().replace('"python": "', '"python": "1'))
    result = apass("replay", folder)
    last = result.stdout.splitlines()[
        result.stdout.splitlines().index(
            "pass onnx.Checker at 0:sequential/0:onnx.Checker on bad.onnx: fails another way"
        ) :
    ]
    assert result.exit_code == 3
    assert last[1].startswith("  it was onnx.onnx_cpp2py_export.checker.ValidationError: No Op registered for Ngg")
    assert last[-1] == f"  python was 1{python_version()}, is {python_version()}"


def test_misuse_is_one_line(tmp_path: Path) -> None:
    result = apass("replay", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: no reproducer in '{tmp_path}': [Errno 2]")
    (tmp_path / "f").write_text("")
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path / "m.onnx", "--reproducer", tmp_path / "f")
    complaint = f"apass: --reproducer: reproducers go into a folder, and '{tmp_path / 'f'}' is a file; choose another\n"
    assert (result.exit_code, result.stderr) == (2, complaint)
