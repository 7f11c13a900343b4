"""Modules of the dict IR in files: every command runs on JSON."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from apass import PassContext, function_pass, register_pass, unregister_pass
from tests.helpers.command_line import apass, write_model
from tests.helpers.folders import files


def upper(func: str, mod: dict[str, str], ctx: PassContext) -> str:
    """Return the function in capitals."""
    return func.upper()


def fail(func: str, mod: dict[str, str], ctx: PassContext) -> str:
    """Fail."""
    raise ValueError(func)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.json").write_text('{"f": "x", "g": "y"}')
    passes = {"dicts.Upper": upper, "dicts.Fail": fail}
    for name, transform in passes.items():
        register_pass(function_pass(transform, opt_level=0, name=name))
    yield
    for name in passes:
        unregister_pass(name)


def run(*arguments: object, stdin: bytes | None = None) -> tuple[int, str, str]:
    """Run a command; return status, output and error output."""
    result = apass(*arguments, stdin=stdin)
    return result.exit_code, result.stdout, result.stderr


def test_dict_is_optimized_from_file_and_stream() -> None:
    assert run("opt", "d.json", "-p", "dicts.Upper", "-o", "out.json", "-q") == (0, "", "")
    assert json.loads(Path("out.json").read_text()) == {"f": "X", "g": "Y"}
    status, out, _ = run("opt", "-", "--from", "json", "-p", "dicts.Upper", stdin=b'{"f": "x"}')
    assert (status, json.loads(out)) == (0, {"f": "X"})


def test_dict_has_reproducers_and_comparisons() -> None:
    status, _, _ = run("opt", "d.json", "-p", "dicts.Fail", "--reproducer", "found", "-q")
    assert (status, Path("found/d.json/0_dicts.Fail/module.json").is_file()) == (1, True)
    status, out, error = run("replay", "found/d.json/0_dicts.Fail")
    assert (status, "ValueError: x" in out + error) == (1, True)
    assert "dicts.Upper" in run("opt", "d.json", "--compare", "dicts.Upper")[1]


def test_json_files_of_a_folder_are_no_models(tmp_path: Path) -> None:
    write_model(tmp_path / "models" / "m.onnx")
    (tmp_path / "models" / "config.json").write_text("[1]")
    assert run("opt", "models", "-o", "out", "-p", "onnx.Default", "-q") == (0, "", "")
    assert run("opt", "models/*", "-o", "out", "-p", "onnx.Default", "-q") == (0, "", "")
    assert files(tmp_path / "out") == ["m.onnx"]
    assert run("opt", "d*.json", "-o", "out", "-p", "dicts.Upper", "-q") == (0, "", "")
    assert files(tmp_path / "out") == ["d.json", "m.onnx"]


def test_mistakes_in_dict_files_are_reported() -> None:
    for text, message in (("[1]", "returned list, expected dict"), ('{"f":', "JSONDecodeError: Expecting value")):
        Path("wrong.json").write_text(text)
        status, _, error = run("opt", "wrong.json", "-p", "dicts.Upper", "-q")
        assert (status, message in error) == (1, True), error
    assert apass("opt", "d.json").stderr == "apass: .json files have no default pipeline; give one with -p\n"
