"""Journals: results survive a kill and are not computed again; invalid journals."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

import apass
from apass import PassContext, module_pass, optimize_all
from apass.batch import Journal
from apass.errors import AdapterError, JournalError, JournalWarning
from tests.helpers.killed_runs import LIMIT, modules, optimized
from tests.helpers.repository import ROOT

Module = dict[str, Any]
EXECUTORS: Sequence[Literal["thread"] | None] = ("thread", None)


class Doubling:
    """Passes that double numbers, fail for those below zero, and count what they did."""

    def __init__(self) -> None:
        self.done: list[int] = []

    def make(self, name: str = "Double", version: str = "1") -> apass.Pass[Any]:
        """Return such a pass."""

        @module_pass(opt_level=0, name=name)
        async def double(mod: Module, ctx: PassContext) -> Module:
            await anyio.lowlevel.checkpoint()
            self.done.append(mod["f"])
            if mod["f"] < 0:
                raise ValueError(mod["f"])
            return {"f": 2 * mod["f"]} if mod["f"] else mod

        double.version = version
        return double


@pytest.mark.process
@pytest.mark.slow
def test_killed_run_resumes_without_loss_or_repetition(backend: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.helpers.killed_runs"]
    done = subprocess.run(
        [*command, str(tmp_path), backend, "50", "1"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    log = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    finished = {name: place for place, (what, name) in reversed([*enumerate(log)]) if what != "begin"}
    again = [name for place, (what, name) in enumerate(log) if what == "begin" and place > finished[name]]
    made = [name for what, name in log if what == "made"]
    begun = [name for what, name in log if what == "begin"]
    results = json.loads((tmp_path / "results.json").read_text())
    assert (done.stdout, again) == ("50 0\n", [])
    assert len(made) == len(set(made))
    assert len(begun) <= len(modules()) + 50 * LIMIT
    assert results == {name: optimized(mod) for name, mod in modules().items()}


@pytest.mark.anyio
async def test_journal_reuses_results_and_retries_failures(tmp_path: Path) -> None:
    work, path = Doubling(), tmp_path / "run.journal"
    given = {"a": {"f": 1}, "b": {"f": -2}, "c": {"f": 0}}
    for journal in (path, str(path), Journal(path, fsync=True)):
        done = await optimize_all(given, work.make(), journal=journal, errors="collect")
        assert [(one.module, type(one.error)) for one in done.values()] == [
            ({"f": 2}, type(None)),
            (None, ValueError),
            ({"f": 0}, type(None)),
        ]
        assert [one.resumed for one in done.values()] == [journal is not path, False, journal is not path]
        assert done["c"].module is given["c"]
    assert sorted(work.done) == [-2, -2, -2, 0, 1]


@pytest.mark.anyio
async def test_results_before_a_failure_are_stored(tmp_path: Path) -> None:
    work, path = Doubling(), tmp_path / "run.journal"
    with pytest.raises(ValueError, match="-1"):
        await optimize_all([{"f": 3}, {"f": 4}, {"f": -1}, {"f": 5}], work.make(), limit=1, journal=path)
    assert await optimize_all([{"f": 3}, {"f": 4}, {"f": 5}], work.make(), journal=path) == [
        {"f": 6},
        {"f": 8},
        {"f": 10},
    ]
    assert work.done == [3, 4, -1, 5]


@pytest.mark.anyio
async def test_unkeyed_modules_are_identified_by_contents(tmp_path: Path) -> None:
    work = Doubling()

    async def arrivals(*numbers: int) -> AsyncIterator[Module]:
        for number in numbers:
            yield {"f": number}

    for numbers in ((1, 2, 3), (3, 4, 1)):
        stream = apass.optimize_stream(arrivals(*numbers), work.make(), journal=tmp_path / "run.journal")
        async with stream as outcomes:
            found = sorted([(one.name, one.unwrap()["f"]) async for one in outcomes])
        assert found == list(enumerate(2 * number for number in numbers))
    assert sorted(work.done) == [1, 2, 3, 4]


@pytest.mark.anyio
async def test_changed_module_or_key_is_computed_again(tmp_path: Path) -> None:
    work, path = Doubling(), tmp_path / "run.journal"
    for given in ({"a": {"f": 1}}, {"a": {"f": 2}}, {"b": {"f": 1}}, {"a": {"f": 1}}):
        await optimize_all(given, work.make(), journal=path)
    assert work.done == [1, 2, 1]


@pytest.mark.anyio
async def test_stored_result_keeps_its_type(tmp_path: Path) -> None:
    @module_pass(opt_level=0)
    def ToRelay(mod: Any, ctx: PassContext) -> Any:
        return apass_relay.IRModule.from_expr(apass_relay.var("x", shape=(mod["f"],)))

    apass_relay = pytest.importorskip("apass.relay")
    first, second = [await optimize_all([{"f": 3}], ToRelay, journal=tmp_path / "run.journal") for _ in range(2)]
    assert apass_relay.structural_equal(first[0], second[0])
    assert first[0] is not second[0]


@pytest.mark.anyio
async def test_journal_of_another_run_raises_with_differences(tmp_path: Path) -> None:
    work, path = Doubling(), tmp_path / "run.journal"
    advice = "; use the pipeline and options of that run, use another journal, or delete this one to start over"
    key = apass.register_config_option("journal.Test.depth", int, default=1).key

    async def refusal(pass_: apass.Pass[Any], **options: Any) -> str:
        async with PassContext(**options):
            with pytest.raises(JournalError) as caught:
                await optimize_all([{"f": 7}], pass_, journal=path)
        start, _, end = str(caught.value).partition("belongs to another run: ")
        assert str(path) in start
        assert end.endswith(advice)
        return end.removesuffix(advice)

    await optimize_all([{"f": 7}], work.make(), journal=path)
    before = path.read_bytes()
    assert await refusal(work.make("Triple")) == "pipeline 'Double', not 'Triple'"
    assert await refusal(work.make(version="2")) == "versions of passes none, not {'Double': '2'}"
    assert await refusal(work.make(), config={key: 8}) == f"other values of config {key}"
    other = await refusal(work.make(), opt_level=3, disabled_pass=["PrintIR"])
    assert other == "opt_level 2, not 3; disabled passes none, not ['PrintIR']"
    assert (work.done, path.read_bytes()) == ([7], before)


@pytest.mark.anyio
async def test_journal_needs_a_pipeline_with_text(tmp_path: Path) -> None:
    pass_ = apass.If(lambda mod: True, [Doubling().make()])
    with pytest.raises(JournalError, match="identifies a pipeline by its text, but this one cannot be written"):
        await optimize_all([{"f": 1}], pass_, journal=tmp_path / "run.journal")


@pytest.mark.anyio
async def test_result_that_cannot_be_serialized_fails(tmp_path: Path) -> None:
    @module_pass(opt_level=0)
    def ToObject(mod: Module, ctx: PassContext) -> Module:
        return {"f": object()}

    with pytest.raises(AdapterError, match="cannot be written as JSON") as caught:
        await optimize_all({"a": {"f": 1}}, ToObject, journal=tmp_path / "run.journal")
    assert caught.value.__notes__ == ["the passes have finished, but the result cannot be written to the journal"]


@pytest.mark.anyio
async def test_damaged_result_warns_and_is_computed_again(tmp_path: Path) -> None:
    work, path = Doubling(), tmp_path / "run.journal"
    given = {name: {"f": index} for index, name in enumerate("abc", 1)}
    await optimize_all(given, work.make(), limit=1, journal=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.warns(JournalWarning, match="bytes are dropped, and their modules are computed again"):
        await optimize_all(given, work.make(), limit=1, journal=path)
    path.write_bytes(whole.replace(b'{"f": 4}', b'{"f": 5}'))
    with pytest.warns(JournalWarning, match="a record in the journal .* is damaged"):
        assert await optimize_all(given, work.make(), limit=1, journal=path) == {
            "a": {"f": 2},
            "b": {"f": 4},
            "c": {"f": 6},
        }
    assert work.done == [1, 2, 3, 3, 2]


@pytest.mark.anyio
async def test_cancelled_run_releases_the_journal(tmp_path: Path) -> None:
    work, path = Doubling(), tmp_path / "run.journal"
    stream = apass.optimize_stream([{"f": index} for index in range(1, 50)], work.make(), limit=4, journal=path)
    async with stream as outcomes:
        first = await anext(aiter(outcomes))
    done = await optimize_all([{"f": index} for index in range(1, 50)], work.make(), journal=path, errors="collect")
    assert (first.resumed, done[int(first.name)].resumed) == (False, True)
    assert sorted(work.done) == list(range(1, 50))


@pytest.mark.anyio
async def test_results_from_an_executor_are_stored(tmp_path: Path) -> None:
    path, given = tmp_path / "run.journal", {"a": {"f": 1}, "b": {"f": 2}}
    pass_ = apass.Sequential[Module]([])
    for executor in EXECUTORS:
        done = await optimize_all(given, pass_, journal=path, errors="collect", executor=executor)
        assert [(one.module, one.resumed) for one in done.values()] == [
            ({"f": 1}, executor is None),
            ({"f": 2}, executor is None),
        ]


def test_journal_argument_is_validated() -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"journal must be a path or an apass.batch.Journal\(path\), got 3"):
        apass.optimize_stream([], Doubling().make(), journal=wrong)
