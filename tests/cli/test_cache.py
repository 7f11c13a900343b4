"""`apass opt --cache`, and `apass cache`."""

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, write_model
from tests.helpers.folders import files


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
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
