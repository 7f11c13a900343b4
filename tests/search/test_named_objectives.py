"""Objectives by name: nodes, bytes, commands and registered callables."""

import sys
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.core.adapter import adapter_for
from apass.errors import SearchError
from apass.search import search
from apass.search.named_objectives import find_objective, objective_names

pytestmark = pytest.mark.anyio

Module = dict[str, Any]
SPACE = "?(s.Add|s.Add{n=10})"


async def values_of(*texts: str) -> dict[str, float]:
    async with search([{"f": 7, "g": 1}], SPACE, find_objective(texts), budget=2, strategy="greedy") as running:
        trials = [trial async for trial in running if trial.pipeline == "s.Add{n=10}"]
    assert not trials[0].reason, trials[0].reason
    return dict(trials[0].values)


async def test_nodes_and_bytes() -> None:
    values = await values_of("nodes", "bytes")
    assert values == {"nodes": 2.0, "bytes": float(len(adapter_for({"f": 1}).dumps({"f": 17, "g": 1})))}


def _f(mod: Module) -> int:
    return int(mod["f"])


async def test_registered_callable() -> None:
    apass.register_callable("cost.of_f", _f)
    try:
        assert await values_of("cost.of_f") == {"cost.of_f": 17.0}
        assert list(
            (await search([{"f": 7}], SPACE, find_objective(["of_f"], ["cost"]), budget=2)).modules[0].values
        ) == ["of_f"]
    finally:
        apass.unregister_callable("cost.of_f")


@pytest.mark.process
async def test_command_prints_the_value(tmp_path: Path) -> None:
    script = tmp_path / "size.py"
    script.write_text("import json, sys\nprint('size:', json.load(open(sys.argv[-1]))['f'], 'or', 2.5e1)\n")
    for text in (f"command:{sys.executable} {script} {{}}", f"command:{sys.executable} {script}"):
        assert await values_of(text) == {text: 25.0}


@pytest.mark.process
async def test_errors_of_commands(tmp_path: Path) -> None:
    rows = [
        ("import sys; sys.exit('no license')", "exited with status 1: no license"),
        ("print('nothing')", "printed no number, got 'nothing\\n'"),
        ("print('nan')", "printed no number"),
        ("print('1e999')", "returned inf; expected a finite number"),
    ]
    for code, message in rows:
        script = tmp_path / "rate.py"
        script.write_text(code)
        with pytest.raises(SearchError) as caught:
            await search([{"f": 7}], SPACE, find_objective([f"command:{sys.executable} {script}"]), budget=2)
        assert message in str(caught.value), message


async def test_errors_of_names() -> None:
    rows: list[tuple[list[str], str]] = [
        (["node"], "'node' is neither an objective nor a function given to register_callable; did you mean 'nodes'"),
        (["nodes:3"], "the objective 'nodes' takes nothing after a colon, got '3'"),
        (["command"], "the objective 'command' needs a program"),
        (["command:a 'b"], 'cannot parse the command "a \'b"'),
        (["what:ever"], "'what' is neither an objective nor a function"),
        ([], "there is no objective"),
    ]
    for texts, message in rows:
        with pytest.raises(SearchError) as caught:
            find_objective(texts)
        assert message in str(caught.value), message
    with pytest.raises(SearchError, match=r"cannot run \./missing"):
        await search([{"f": 7}], SPACE, find_objective(["command:./missing-program"]), budget=2)
    assert {"bytes", "command", "nodes"} <= set(objective_names())
