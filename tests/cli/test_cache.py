"""`apass opt --cache`, and `apass cache`."""

import json
from pathlib import Path
from typing import Any

import pytest

from apass import PassContext, module_pass, register_pass, unregister_pass
from tests.helpers.command_line import apass, write_model
from tests.helpers.folders import files


def test_second_run_uses_results_of_the_first(tmp_path: Path, backend: str) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / "in" / f"{name}.onnx", identities=2 if name == "a" else 3)
    location = tmp_path / "cache" / "results.db"
    for output in ("one", "two"):
        result = apass("opt", tmp_path / "in", "-o", tmp_path / output, "--cache", location, "--backend", backend)
        assert result.exit_code == 0, result.output
    info = apass("cache", "info", "--cache", location).stdout
    assert info.startswith(f"{location}: ")
    assert {name: (tmp_path / "one" / name).read_bytes() for name in files(tmp_path / "one")} == {
        name: (tmp_path / "two" / name).read_bytes() for name in files(tmp_path / "two")
    }
    # The store has the same contents after another run.
    apass("opt", tmp_path / "in", "-o", tmp_path / "two", "--cache", location)
    assert apass("cache", "info", "--cache", location).stdout == info
    assert apass("cache", "clear", "--cache", location).stdout.endswith("results deleted\n")
    assert apass("cache", "info", "--cache", location).stdout == f"{location}: 0 results, 0 bytes\n"


def test_default_cache_is_in_the_users_cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APASS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert apass("cache", "info").stdout == f"{tmp_path}/apass/results.db: 0 results, 0 bytes\n"
    monkeypatch.setenv("APASS_CACHE", str(tmp_path / "my.db"))
    assert apass("cache", "info").stdout == f"{tmp_path}/my.db: 0 results, 0 bytes\n"


def test_folder_as_cache_is_rejected(tmp_path: Path) -> None:
    result = apass("cache", "info", "--cache", tmp_path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"apass: the cache '{tmp_path}' is a folder; name a file, such as '{tmp_path}/results.db'\n",
    )


def test_explain_names_what_differs(tmp_path: Path) -> None:
    model, location = write_model(tmp_path / "m.onnx", identities=2), tmp_path / "results.db"
    missing = apass("cache", "explain", model, "-p", "onnx.Inline", "--cache", location)
    assert (missing.exit_code, missing.stderr) == (
        2,
        f"apass: no cache at '{location}'; `apass opt --cache {location}` creates it\n",
    )
    run = apass("opt", model, "-o", tmp_path / "o.onnx", "-p", "onnx.Inline,onnx.Simplify", "--cache", location)
    assert run.exit_code == 0, run.output
    pipeline = "onnx.Inline{max_nodes=5},onnx.Simplify"
    lines = apass("cache", "explain", model, "-p", pipeline, "--cache", location)
    assert lines.stdout.splitlines() == [
        "missing  onnx.Inline{max_nodes=5}  stored for this module with option max_nodes not set, now 5",
        "stored   onnx.Simplify",
    ]
    values = apass("cache", "explain", model, "-p", pipeline, "--cache", location, "--output-format", "json")
    assert json.loads(values.stdout.splitlines()[0]) == {
        "pass": "onnx.Inline{max_nodes=5}",
        "path": ["sequential", "onnx.Inline"],
        "state": "missing",
        "reason": "stored for this module with option max_nodes not set, now 5",
        "functions": 0,
        "stored_functions": 0,
    }


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "'.' is a folder; give one model file"),
        ("*.onnx", "no such file: '*.onnx'; give one model file"),
        ("-", "no such file: '-'; give one model file"),
        ("none.onnx", "no such file: 'none.onnx'"),
    ],
)
def test_explain_takes_one_file(name: str, message: str) -> None:
    result = apass("cache", "explain", name)
    assert (result.exit_code, result.stderr) == (2, f"apass: {message}\n")


def test_explain_shows_the_failure_of_a_pass(tmp_path: Path) -> None:
    def fail(mod: Any, ctx: PassContext) -> Any:
        raise RuntimeError("boom")

    register_pass(module_pass(fail, opt_level=0, name="test_cache.Fail"))
    model, location = write_model(tmp_path / "m.onnx"), tmp_path / "results.db"
    assert apass("opt", model, "-o", tmp_path / "o.onnx", "--cache", location).exit_code == 0
    result = apass("cache", "explain", model, "-p", "onnx.Inline,test_cache.Fail", "--cache", location)
    unregister_pass("test_cache.Fail")
    message = "failed m.onnx: in pass 'sequential > test_cache.Fail', module 'm.onnx'\n    RuntimeError: boom\n"
    assert (result.exit_code, result.stderr.startswith(f"{message}    at ")) == (1, True)


def test_explain_says_that_no_pass_runs(tmp_path: Path) -> None:
    model, location = write_model(tmp_path / "m.onnx"), tmp_path / "results.db"
    assert apass("opt", model, "-o", tmp_path / "o.onnx", "--cache", location).exit_code == 0
    result = apass("cache", "explain", model, "-p", "onnx.FuseNodes", "--cache", location)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"apass: no pass runs; `apass plan {model} -p ...` says why\n"
