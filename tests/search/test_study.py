"""Studies: the same search continues, and nothing is measured twice."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apass import PassContext
from apass.errors import SearchError
from apass.search import Attempt, Candidate, Trial, learn_pipelines, search
from apass.search.study import Study, is_study, read_table
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

SPACE = "?{1..6}(s.Add{n=-3}|s.Add{n=1}|s.Scale{by=0.5})"


class Distance:
    """An objective that counts its calls."""

    objective_name = "distance"

    def __init__(self) -> None:
        self.pipelines: list[str] = []

    def __call__(self, candidate: Candidate[Module], _attempt: Attempt) -> float:
        self.pipelines.append(candidate.pipeline)
        return float(abs(candidate.module["f"] - 2))


@pytest.mark.parametrize("strategy", ["random", "greedy", "evolution", "tpe", "nevergrad:OnePlusOne"])
async def test_search_continues_from_its_study(tmp_path: Path, strategy: str) -> None:
    first, second = Distance(), Distance()
    path, modules = tmp_path / "study.db", [{"f": 8}]
    one = await search(modules, SPACE, first, strategy=strategy, budget=15, journal=path)
    other = await search(modules, SPACE, second, strategy=strategy, budget=30, journal=path)
    # OnePlusOne changes one point only, and has soon tried what is near it. Greedy ends at a local minimum.
    if strategy not in ("nevergrad:OnePlusOne", "greedy"):
        assert (one.evaluations, other.evaluations) == (15, 30)
    assert (one.resumed, other.resumed) == (0, one.evaluations)
    assert not set(first.pipelines) & set(second.pipelines)
    assert other.modules[0].values["distance"] <= one.modules[0].values["distance"]


async def test_finished_study_evaluates_nothing(tmp_path: Path) -> None:
    path, objective = tmp_path / "study.db", Distance()
    one = await search([{"f": 8}], SPACE, Distance(), budget=15, journal=path)
    other = await search([{"f": 8}], SPACE, objective, budget=15, journal=path)
    assert objective.pipelines == []
    assert other.modules[0].pipeline == one.modules[0].pipeline
    assert other.modules[0].module == one.modules[0].module
    assert (other.evaluations, other.resumed) == (15, 15)


async def test_further_module_joins_a_study(tmp_path: Path) -> None:
    path, objective = tmp_path / "study.db", Distance()
    await search({"a": {"f": 8}}, SPACE, Distance(), budget=15, journal=path)
    result = await search({"a": {"f": 8}, "b": {"f": 80}}, SPACE, objective, budget=25, journal=path)
    assert result.evaluations == 25
    assert result.modules["b"].trials == 10


SCRIPT = """
import os, signal, sys, anyio, apass
from apass.search import search
sys.path.insert(0, {root!r})
from tests.search.conftest import add, scale
apass.register_pass("s.Add", add)
apass.register_pass("s.Scale", scale)

def distance(candidate, attempt):
    if attempt.number == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    print(candidate.pipeline, flush=True)
    return abs(candidate.module["f"] - 2)

async def main():
    result = await search([{{"f": 8}}], {space!r}, distance, budget=40, journal=sys.argv[1], workers=1)
    print("best", result.modules[0].values, result.resumed)

anyio.run(main)
"""


@pytest.mark.process
async def test_killed_search_continues(tmp_path: Path) -> None:
    def run(last: int) -> tuple[int, list[str]]:
        script = SCRIPT.format(last=last, space=SPACE, root=str(ROOT))
        command = [sys.executable, "-c", script, str(tmp_path / "study.db")]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode, done.stdout.splitlines()

    killed, pipelines = run(12)
    assert killed == -signal.SIGKILL
    again, others = run(30)
    assert again == -signal.SIGKILL
    status, rest = run(-1)
    assert status == 0
    seen = [*pipelines, *others, *rest[:-1]]
    assert len(set(seen)) == len(seen)
    assert rest[-1].startswith("best {'distance': ")


async def test_errors_of_foreign_files(tmp_path: Path) -> None:
    path, modules = tmp_path / "study.db", [{"f": 8}]
    await search(modules, SPACE, Distance(), budget=2, journal=path)
    other, text, folder = tmp_path / "other.db", tmp_path / "text.db", tmp_path / "missing" / "study.db"
    sqlite3.connect(other).execute("CREATE TABLE a (b)").connection.close()
    text.write_text("not a database")
    rows: list[tuple[Path, str, dict[str, Any], str]] = [
        (path, "?(s.Add|s.Scale)", {}, f"the study {str(path)!r} belongs to another search: space"),
        (path, SPACE, {"baseline": "s.Add"}, "baseline '', not 's.Add'"),
        (path, SPACE, {"context": PassContext(opt_level=3)}, "opt_level '2', not '3'"),
        (other, SPACE, {}, "is not the study of a search; choose another path"),
        (text, SPACE, {}, "is not the study of a search; choose another path"),
        (folder, SPACE, {}, "does not exist; create it first"),
        (tmp_path, SPACE, {}, "is not the study of a search"),
    ]
    for file, space, options, message in rows:
        with pytest.raises(SearchError) as caught:
            await search(modules, space, Distance(), budget=2, journal=file, **options)
        assert message in str(caught.value), message


async def test_study_in_use_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    async with search([{"f": 8}], SPACE, Distance(), budget=5, journal=path):
        with pytest.raises(SearchError, match="another process uses it; wait for its end"):
            await search([{"f": 8}], SPACE, Distance(), budget=5, journal=path)
    await search([{"f": 8}], SPACE, Distance(), budget=5, journal=path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("value", "[1]"),
        ("value", '{"distance": NaN}'),
        ("value", "{"),
        ("details", "3"),
        ("point", "{"),
        ("point", "[9]"),
    ],
)
async def test_damaged_trial_is_an_error(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "study.db"
    await search([{"f": 8}], SPACE, Distance(), budget=5, journal=path)
    database = sqlite3.connect(path)
    database.execute(f"UPDATE trials SET {column} = ? WHERE number = 3", (value,))
    database.commit()
    database.close()
    with pytest.raises(SearchError, match=r"is damaged|does not belong to the space"):
        await search([{"f": 8}], SPACE, Distance(), budget=5, journal=path)


async def test_table_of_a_study(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    result = await search({"a": {"f": 8}, "b": {"f": 12}}, SPACE, Distance(), budget=60, journal=path)
    assert is_study(path)
    table = read_table(path)
    assert len({module for values in table.values() for module in values}) == 2
    assert all(value > 0 for values in table.values() for value in values.values())
    chosen = learn_pipelines(table)
    lowest = {module: min(row[module] for row in table.values() if module in row) for module in _modules(table)}
    assert {module: min(table[name].get(module, 1.0) for name in chosen) for module in lowest} == lowest
    without = next(iter(_modules(table)))
    assert _modules(read_table(path, without=without)) == _modules(table) - {without}
    assert result.modules["a"].ratio is not None or result.modules["a"].values == {"distance": 0.0}


def _modules(table: Any) -> set[str]:
    return {module for values in table.values() for module in values}


async def test_learned_pipelines_help_another_module(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    for n in range(1, 4):
        await search({f"m{n}": {"f": 16 * n}}, SPACE, Distance(), budget=60 * n, journal=path, workers=1)
    chosen = learn_pipelines(read_table(path))
    async with search([{"f": 20}], SPACE, Distance(), strategy=f"coreset:{path}", budget=5, workers=1) as running:
        tried = [trial.pipeline async for trial in running]
    assert tried[: len(chosen)] == chosen[:5]
    assert chosen


async def test_coreset_from_text_file(tmp_path: Path) -> None:
    path = tmp_path / "best.txt"
    path.write_text("# learned\ns.Add{n=1},s.Scale{by=0.5}  # the best\n\ns.Add{n=-3}\n")
    async with search([{"f": 20}], SPACE, Distance(), strategy=f"coreset:{path}", budget=2, workers=1) as running:
        assert [trial.pipeline async for trial in running] == ["s.Add{n=1},s.Scale{by=0.5}", "s.Add{n=-3}"]
    path.write_text("s.Scale{by=0.25}\n")
    other = tmp_path / "module.ll"
    other.write_text("; ModuleID = 1\n")
    for strategy, message in (
        (f"coreset:{path}", "the pipeline 's.Scale{by=0.25}' of the strategy coreset is not one of the space"),
        (f"coreset:{other}", r"cannot read the pipeline '; ModuleID = 1': .*; expected a pipeline in each line of "),
        (f"coreset:{tmp_path / 'missing'}", "cannot read the pipelines of the strategy"),
        ("coreset", "has no list of pipelines; write coreset:FILE"),
    ):
        with pytest.raises(SearchError, match=message):
            await search([{"f": 20}], SPACE, Distance(), strategy=strategy, budget=2)


def test_study_without_file_keeps_trials() -> None:
    study = Study(None, {"space": "x"})
    study.add_module("m", "model")
    assert study.next_number == 0
    trial = Trial(number=0, module="model", pipeline="A", values={"size": 3.0}, details={"noise": 0.5}, seconds=0.25)
    study.add("m", trial, [[1]], "result")
    assert study.find("m", "A") == trial
    assert study.find_equal("m", "result") == trial
    assert (study.find("m", "B"), study.find("n", "A"), study.find_equal("m", "other")) == (None, None, None)
    assert list(study.points("m")) == [([[1]], trial)]
    study.reject(0, "wrong")
    assert [(known.reason, known.is_valid) for known in study.trials("m")] == [("wrong", False)]
    assert json.loads(json.dumps(trial.as_json()))["details"] == {"noise": 0.5}
    study.close()
