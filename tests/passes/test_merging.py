"""Consecutive passes that a Sequential runs as one."""

from collections.abc import Sequence

import pytest

import apass
from apass.runner.changes import CHANGES, ChangeLog
from apass.stores import MemoryStore
from apass.testing import RecordingInstrument

pytestmark = pytest.mark.anyio

Module = dict[str, list[str]]


class Append(apass.ModulePass[Module]):
    """Appends its name to the list `log`; merged passes append theirs together."""

    merges = True

    def __init__(self, letters: str, opt_level: int = 0, required: Sequence[str] = ()) -> None:
        self.info = apass.PassInfo(opt_level, letters, list(required))

    def merged_with(self, following: Sequence[apass.Pass[Module]]) -> "Append | None":
        names = [self.info.name, *(pass_.info.name for pass_ in following)]
        return None if "alone" in names else Append("+".join(names))

    def transform_module(self, mod: Module, ctx: apass.PassContext) -> Module:
        if "bad" in self.info.name.split("+"):
            raise ValueError("cannot append")
        return {"log": [*mod["log"], self.info.name]}


async def log_of(*passes: apass.Pass[Module], **context: object) -> list[str]:
    async with apass.PassContext(**context):  # type: ignore[arg-type]
        return (await apass.Sequential(passes)({"log": []}))["log"]


async def test_consecutive_passes_run_as_one() -> None:
    other: apass.Pass[Module] = apass.module_pass(lambda mod, ctx: {"log": [*mod["log"], "x"]}, opt_level=0, name="x")
    assert await log_of(Append("a"), Append("b"), other, Append("c"), Append("d")) == ["a+b", "x", "c+d"]
    assert await log_of(Append("a"), other, Append("b")) == ["a", "x", "b"]
    assert await log_of(Append("a"), Append("alone")) == ["a", "alone"]


async def test_inner_sequential_merges_with_its_neighbours() -> None:
    inner = apass.Sequential([Append("b"), Append("c", opt_level=3), apass.Sequential([Append("d")])])
    assert await log_of(Append("a"), inner, Append("e")) == ["a+b+d+e"]
    assert await log_of(Append("a"), inner, Append("e"), disabled_pass=["b"]) == ["a+d+e"]


async def test_inner_sequential_stays_whole_if_it_decides_itself() -> None:
    class Twice(apass.Sequential[Module]):
        async def transform(self, mod: Module, ctx: apass.PassContext) -> Module:
            return await super().transform(await super().transform(mod, ctx), ctx)

    assert await log_of(Append("a"), Twice([Append("b"), Append("c")]), Append("d")) == ["a", "b+c", "b+c", "d"]


async def test_limited_pass_runs_alone() -> None:
    class Settles(Append, idempotent=True):
        def __init__(self, letters: str) -> None:
            super().__init__(letters)

    assert await log_of(Append("a"), Append("b"), Settles("c"), Append("d"), Append("e")) == ["a+b", "c", "d+e"]


async def test_levels_and_disabled_passes_are_respected() -> None:
    passes = [Append("a"), Append("b", opt_level=3), Append("c"), Append("d")]
    assert await log_of(*passes) == ["a+c+d"]
    assert await log_of(*passes, required_pass=["b"], disabled_pass=["c"]) == ["a+b+d"]


async def test_required_passes_run_in_between() -> None:
    apass.register_pass("Opening", Append("Opening"))
    try:
        assert await log_of(Append("a"), Append("b"), Append("c", required=["Opening"])) == ["a+b", "Opening", "c"]
    finally:
        apass.unregister_pass("Opening")


async def test_instruments_see_each_pass() -> None:
    recorder = RecordingInstrument()
    assert await log_of(Append("a"), Append("b"), instruments=[recorder]) == ["a", "b"]


async def test_store_keeps_each_result() -> None:
    assert await log_of(Append("a"), Append("b"), store=MemoryStore()) == ["a", "b"]


async def test_failure_names_the_pass_that_fails() -> None:
    with pytest.raises(ValueError, match="cannot append") as caught:
        await log_of(Append("a"), Append("bad"), Append("c"))
    assert caught.value.__notes__ == ["in pass 'sequential > bad'"]


async def test_failure_in_an_inner_sequential_names_both() -> None:
    with pytest.raises(ValueError, match="cannot append") as caught:
        await log_of(Append("a"), apass.Sequential([Append("b"), Append("bad")], name="inner"), Append("c"))
    assert caught.value.__notes__ == ["in pass 'sequential > inner > bad'"]


class AppendUnlogged(Append, init=False):
    """Merges if it is not recorded which pass changes the module."""

    def merged_with(self, following: Sequence[apass.Pass[Module]]) -> "Append | None":
        return None if CHANGES.get() is not None else super().merged_with(following)


@pytest.mark.process
@pytest.mark.parametrize("is_logged", [True, False])
async def test_worker_merges_passes_unless_changes_are_logged(is_logged: bool) -> None:
    log = ChangeLog() if is_logged else None
    modules: dict[str, Module] = {"m": {"log": []}}
    token = CHANGES.set(log)
    try:
        results = await apass.optimize_all(
            modules, apass.Sequential([AppendUnlogged("a"), AppendUnlogged("b")]), executor="process"
        )
    finally:
        CHANGES.reset(token)
    assert results["m"]["log"] == (["a", "b"] if is_logged else ["a+b"])
    assert log is None or log.changed == {"a": 1, "b": 1}
