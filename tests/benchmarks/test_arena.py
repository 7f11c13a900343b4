"""`python -m benchmarks.arena`: downloads, failures, culprits and files."""

import hashlib
import json
import shutil
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.arena.__main__ import main
from benchmarks.arena.models import ArenaError, Model, Wheel, load_models
from benchmarks.arena.processes import run_module
from benchmarks.arena.rows import Row
from benchmarks.arena.tools import TOOLS, installed
from benchmarks.arena.wheels import MissingWheelError, fetch_wheel, read_model
from benchmarks.rows import RowFile
from tests.helpers.arena_tools import tool

pytestmark = [pytest.mark.process, pytest.mark.slow]

COPYING = tool("copying")
WHEEL = "tiny_models-1.0-py3-none-any.whl"


def tiny_model() -> bytes:
    """Return the model `y = Identity(x + c)`."""
    constant = numpy_helper.from_array(np.arange(4, dtype=np.float32), "c")
    nodes = [helper.make_node("Add", ["x", "c"], ["sum"]), helper.make_node("Identity", ["sum"], ["y"])]
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])] for name in ("x", "y"))
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, [constant])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a list of models whose wheel is in a folder from which pip downloads."""
    folder = tmp_path / "index"
    folder.mkdir()
    data = tiny_model()
    info = "tiny_models-1.0.dist-info"
    with ZipFile(folder / WHEEL, "w") as archive:
        archive.writestr("tiny_models/add.onnx", data)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-models\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    models = tmp_path / "models.toml"
    models.write_text(
        '[[wheel]]\npackage = "tiny-models"\nversion = "1.0"\ngroup = "ten"\ntuned = true\nmodels = [\n'
        f'  {{ name = "add", member = "tiny_models/add.onnx", sha256 = "{hashlib.sha256(data).hexdigest()}" }},\n]\n'
    )
    return models


def run(index: Path, *arguments: str, tools: Any = (COPYING,)) -> tuple[int, Path]:
    """Run the command without the latency; return the exit status and the cache."""
    cache = index.parent / "cache"
    return main(["--no-latency", "--jobs=2", f"--cache={cache}", *arguments], index, tools), cache


def test_wheel_is_downloaded_once(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, cache = run(index)
    assert status == 0
    assert (cache / WHEEL).exists()
    assert "download tiny-models==1.0" in capfd.readouterr().err
    (index.parent / "index" / WHEEL).unlink()
    assert run(index)[0] == 0
    assert "download" not in capfd.readouterr().err


def test_absent_wheel_is_named(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (index.parent / "index" / WHEEL).unlink()
    status, cache = run(index)
    assert status == 2
    found, error = capfd.readouterr().err.splitlines()[-2:]
    assert found.startswith("tiny-models==1.0 is left out: tried `pip download --no-deps")
    assert error.startswith("error: tried `pip download --no-deps")
    assert f"put the wheel into {cache}" in error
    with pytest.raises(MissingWheelError):
        fetch_wheel(Wheel("tiny-models", "1.0"), cache)


@pytest.fixture
def offline(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a list of models from an index that cannot be reached."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    return index


def test_named_model_needs_the_index(offline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(offline, "--models=add")[0] == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("error: the package index cannot be reached: tried `pip download")
    assert "--cache" in error


def test_installed_models_are_taken_without_a_network(offline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(offline, f"--keep={offline.parent / 'kept'}")[0] == 0
    out, error = capfd.readouterr()
    assert "\nwithout a network: 19 models of the installed onnx package instead\n" in error
    assert "light_densenet121*  " in out
    assert "19 models" in out
    assert (offline.parent / "kept" / "test_operator_basic" / "copying.onnx").exists()


def test_cached_wheels_are_enough_without_a_network(offline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(offline.parent / "index", offline.parent / "cache")
    other = load_models(offline)[0].sha256.replace("a", "b")
    with offline.open("a") as file:
        for name in ("far", "farther"):
            other = other[1:] + other[0]
            file.write(
                f'[[wheel]]\npackage = "{name}"\nversion = "1"\n'
                f'models = [{{ name = "{name}", member = "m.onnx", sha256 = "{other}" }}]\n'
            )
    assert run(offline)[0] == 0
    out, error = capfd.readouterr()
    assert out.splitlines()[1].split() == ["add*", "2", "2", "2"]
    assert "far==1 is left out: the package index cannot be reached" in error
    assert "\nfarther==1 is left out\n" in error


def test_changed_wheel_is_noticed(index: Path) -> None:
    path = fetch_wheel(Wheel("tiny-models", "1.0"), index.parent / "cache")
    (model,) = load_models(index)
    assert read_model(model, path) == tiny_model()
    with pytest.raises(ArenaError, match="the wheel has changed"):
        read_model(Model(model.name, model.wheel, model.member, "0" * 64), path)
    with pytest.raises(ArenaError, match=r"cannot read tiny_models/sub\.onnx"):
        read_model(Model(model.name, model.wheel, "tiny_models/sub.onnx", model.sha256), path)


def test_failures_are_rows(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tools = (COPYING, tool("raising"), tool("crashing"), tool("idle"))
    file = index.parent / "table.json"
    status, _ = run(index, f"--json={file}", tools=tools)
    assert status == 0  # only a failure of apass changes it
    out = capfd.readouterr().out
    assert out.splitlines()[1].split() == ["add*", "2", "2", "crash", "crash", "crash", "2"]
    assert "no result: raising on add: ValueError: the first line" in out
    assert "no result: idle on add: the tool wrote no file" in out
    assert "no result: crashing on add: ended by SIGSEGV" in out
    rows = {row["tool"]: row for row in json.loads(file.read_text())["rows"]}
    assert (rows["copying"]["outputs"], rows["copying"]["error"]) == ("identical", "")
    assert all(row["peak"] > 2**20 and row["process_seconds"] > 0 for row in rows.values())


def test_time_limit_is_a_row(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(index, "--time-limit=1.5", tools=(tool("hanging"),))[0] == 0
    out = capfd.readouterr().out
    assert out.splitlines()[1].split() == ["add*", "2", "time", "2"]
    assert "no result: hanging on add: ended after 1.5 s" in out


def test_changed_outputs_name_their_culprit(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = index.parent / "pages" / "arena.md"
    run(index, f"--page={page}", tools=(COPYING, tool("changing", "parts")))
    out = capfd.readouterr().out
    assert out.splitlines()[1].split() == ["add*", "2", "2", "2!", "2"]
    found = next(line for line in out.splitlines() if line.startswith("changed outputs"))
    assert found.startswith("changed outputs: changing on add: output 'y' differs")
    assert found.endswith("culprit: add_one")
    text = page.read_text()
    assert "| changing | add | output 'y' differs" in text
    assert "| add\\_one |" in text
    assert str(index.parent) not in text
    assert "<title>add: 1.00</title>" in (page.parent / "arena_nodes.svg").read_text()


def test_resumed_run_measures_only_missing_rows(index: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = index.parent / "rows.jsonl"
    run(index, f"--resume={file}")
    first = file.read_text()
    run(index, f"--resume={file}", tools=(COPYING, tool("raising")))
    rows = RowFile(file, Row.from_json)
    assert [row.tool for row in rows.read()] == ["copying", "raising"]
    assert file.read_text().startswith(first)
    # A line that an interrupted run has not finished.
    file.write_text(first + first[:40])
    assert len(rows.read()) == 1
    assert file.read_text() == first
    file.write_text(first + first[:40])
    run(index, f"--resume={file}")
    assert file.read_text() == first
    capfd.readouterr()
    for other in (first[:40] + "\n" + first, '{"a": 1}\n'):
        file.write_text(other)
        assert run(index, f"--resume={file}")[0] == 2
        assert file.read_text() == other
    assert "line 1 of" in capfd.readouterr().err


def test_installed_tools_keep_the_outputs(index: Path) -> None:
    file = index.parent / "table.json"
    cache = index.parent / "cache"
    assert main([f"--cache={cache}", f"--json={file}"], index, TOOLS) == 0
    document = json.loads(file.read_text())
    rows: dict[str, Any] = {row["tool"]: row for row in document["rows"]}
    assert list(rows) == [tool.name for tool in installed(TOOLS)]
    assert {row["outputs"] for row in rows.values()} == {"identical"}
    assert (rows["apass2"]["nodes"], rows["apass2"]["nodes_before"]) == (1, 2)
    latency = rows["apass2"]["latency"]
    assert 0 < latency["low"] <= latency["high"]
    assert document["versions"]["onnx"] == onnx.__version__


@pytest.mark.anyio
async def test_tools_can_skip_all_parts(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(tiny_model())
    for peer in [peer for peer in installed(TOOLS) if peer.parts]:
        skip: list[str] = resolve_name(peer.parts)()
        described = json.dumps({"factory": peer.factory, "arguments": peer.arguments, "skip": skip})
        ended = await run_module("benchmarks.arena.worker", [described, str(source), str(tmp_path / "new.onnx")], 60)
        assert (ended.error, len(skip) > 5) == ("", True), peer.name


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--models=sub*"], "no model of the group 'all' matches sub*; it has add, ..."),
        (["--group=others"], "no model of the group 'others' matches any name"),
        (["--tools=copying,slim"], "no tool matches 'slim'; installed are copying"),
    ],
)
def test_selection_without_match_is_an_error(
    index: Path, arguments: list[str], error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(index, *arguments)[0] == 2
    assert capfd.readouterr().err == f"error: {error}\n"
