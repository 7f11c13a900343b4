"""`apass opt --reproducer` and `apass replay` in separate processes."""

from pathlib import Path
from platform import python_version

import pytest

from tests.helpers.command_line import apass, process, write_model
from tests.helpers.folders import files

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
    def __init__(self, name: str = "multiply") -> None:
        self.name = name

    async def transform_function(self, func, mod, ctx):
        if self.name in str(func):
            raise NotImplementedError(f"{self.name} in {len(str(func).splitlines())} lines")
        return func
"""


def broken(path: Path) -> Path:
    """Write a model that `onnx.Checker` rejects."""
    model = write_model(path)
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    return model


def test_onnx_reproducer_fails_again(tmp_path: Path, backend: str) -> None:
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
    assert result.stdout.splitlines()[-1] == f"to reproduce: apass replay {folder}"
    last = "pass onnx.Checker at 0:sequential/1:onnx.Checker on bad.onnx: fails the same way"
    again = apass("replay", folder)
    assert (again.exit_code, again.stdout.splitlines()[-1], again.stderr) == (1, last, "")
    assert "onnx.onnx_cpp2py_export.checker.ValidationError: No Op registered for Ngg" in again.stdout
    write_model(folder / "module.onnx")
    fixed = apass("replay", folder)
    success = last.replace("fails the same way", "does not fail any more")
    assert (fixed.exit_code, fixed.stdout.splitlines()[0], fixed.stderr) == (0, success, "")


@pytest.mark.process
@pytest.mark.slow
def test_replay_runs_a_registered_user_pass(tmp_path: Path) -> None:
    (tmp_path / "my_passes.py").write_text(PASSES)
    (tmp_path / "m.relay").write_text(RELAY)
    path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
    pipeline = "InferType,NoMultiply{name=multiply}"
    arguments = ["opt", tmp_path / "m.relay", "-p", pipeline, "--reproducer", tmp_path / "r"]
    status, shown, _ = process(*arguments, body=f"{path}; import my_passes")
    folder = tmp_path / "r" / "m.relay" / "1_NoMultiply"
    assert (status, (folder / "module.relay").is_file()) == (1, True), shown
    text = (folder / "module.relay").read_text()
    (folder / "module.relay").write_text(text.replace("@main", "@main2"))
    status, shown, error = process("replay", folder, body=path)
    assert (status, shown) == (2, "")
    assert "first import the module that registers it (the pass was defined in 'my_passes')" in error
    status, shown, error = process("replay", folder, body=f"{path}; import my_passes")
    assert (status, error) == (1, "")
    assert shown.splitlines()[-3:] == [
        "NotImplementedError: multiply in 4 lines",
        "in pass 'NoMultiply', function 'main2', module 'm.relay'",
        "pass NoMultiply at 0:sequential/1:NoMultiply on m.relay: fails the same way",
    ]


def test_replay_shows_recorded_failure_when_it_differs(tmp_path: Path) -> None:
    broken(tmp_path / "bad.onnx")
    apass("opt", tmp_path / "bad.onnx", "-p", "onnx.Checker", "--reproducer", tmp_path / "r")
    folder = tmp_path / "r" / "bad.onnx" / "0_onnx.Checker"
    model = folder / "module.onnx"
    model.write_bytes(model.read_bytes().replace(b"Ngg", b"Nog"))
    record = folder / "reproducer.json"
    record.write_text(record.read_text().replace('"python": "', '"python": "1'))
    result = apass("replay", folder)
    last = result.stdout.splitlines()[
        result.stdout.splitlines().index(
            "pass onnx.Checker at 0:sequential/0:onnx.Checker on bad.onnx: fails another way"
        ) :
    ]
    assert result.exit_code == 3
    assert last[1].startswith(
        "  recorded failure: apass.errors.AdapterError: CheckerPass of onnx_ir failed on model 'bad.onnx': Valid"
    )
    assert last[-1] == f"  python was 1{python_version()}, is now {python_version()}"


def test_replay_misuse_is_one_line(tmp_path: Path) -> None:
    result = apass("replay", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: no reproducer in '{tmp_path}': [Errno 2]")
    (tmp_path / "f").write_text("")
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path / "m.onnx", "--reproducer", tmp_path / "f")
    message = f"apass: --reproducer: reproducers need a folder, got the file '{tmp_path / 'f'}'; choose another path\n"
    assert (result.exit_code, result.stderr) == (2, message)
