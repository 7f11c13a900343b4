"""`replay`: the verdicts, and the errors of invalid reproducers."""

import json
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import apass
from apass import relay
from apass.external import Service
from apass.instruments import ReproducerInstrument, VerifyInstrument
from apass.passes.registry import find_recipe
from tests.helpers.failing_passes import FailOn, Strict, add_one, failing_passes
from tests.helpers.recording import module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


@pytest.fixture(autouse=True)
def _registered() -> Generator[None]:
    with failing_passes():
        yield


async def reproducer(pass_: apass.Pass[Any], mod: Any, folder: Path, **settings: Any) -> Path:
    """Run a failing pass, and return the folder of its reproducer."""
    instrument = ReproducerInstrument(folder)
    async with apass.PassContext(instruments=[instrument], **settings):
        outcomes = await apass.optimize_all({"m": mod}, pass_, errors="collect")
    (error,) = [outcome.error for outcome in outcomes.values()]
    assert error is not None
    (path,) = instrument.folders
    return path


async def test_replay_repeats_type_and_message(tmp_path: Path) -> None:
    folder = await reproducer(apass.Sequential([add_one, FailOn(3)]), {"f": 1, "g": 2}, tmp_path)
    result = await apass.replay(folder)
    assert (result.verdict, repr(result.error)) == (apass.debugging.Verdict.SAME, "ValueError('cannot do 3')")
    assert result.error is not None
    assert result.error.__notes__ == ["in pass 'FailOn', function 'g', module 'm'"]
    assert result.reproducer == apass.read_reproducer(folder)


async def test_replay_uses_the_recorded_context(tmp_path: Path) -> None:
    settings = {"opt_level": 1, "required_pass": ["Strict"], "disabled_pass": ["Elsewhere"]}
    disabled = module_pass_of(lambda mod, ctx: mod, name="Elsewhere")
    folder = await reproducer(apass.Sequential([disabled, Strict]), {}, tmp_path, **settings)
    result = await apass.replay(folder)
    assert (result.verdict, str(result.error)) == (apass.debugging.Verdict.SAME, "level 1, disabled ['Elsewhere']")


async def test_replay_distinguishes_fixed_and_other_failures(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    assert (await apass.replay(folder, add_one)).verdict is apass.debugging.Verdict.NONE
    assert (await apass.replay(folder, "FailOn{value=1}")).verdict is apass.debugging.Verdict.SAME
    result = await apass.replay(folder, Strict)
    assert (result.verdict, type(result.error)) == (apass.debugging.Verdict.OTHER, RuntimeError)
    (folder / "module.json").write_text('{"f": 2}')
    assert (await apass.replay(folder)).verdict is apass.debugging.Verdict.NONE


async def test_replay_verifies_the_module_again(tmp_path: Path) -> None:
    lose = module_pass_of(lambda mod, ctx: {**mod, "g": None}, name="Lose")
    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[VerifyInstrument("always"), instrument]):
        await apass.optimize_all({"m": {"f": 1}}, apass.Sequential([add_one, lose]), errors="collect")
    (folder,) = instrument.folders
    result = await apass.replay(folder, lose)
    assert (result.verdict, result.reproducer.verify) == (apass.debugging.Verdict.SAME, "always")
    assert str(result.failure).startswith("apass.errors.VerifyError: pass 'Lose' broke the module: function 'g'")
    assert str(result.reproducer.failure) == str(result.failure)


async def test_replay_ignores_addresses_in_messages(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Address(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError(f"no use for {object()!r}")

    folder = await reproducer(Address, {}, tmp_path)
    assert (await apass.replay(folder, Address)).verdict is apass.debugging.Verdict.SAME


async def test_replay_restores_relay_types(tmp_path: Path) -> None:
    @apass.function_pass(opt_level=0)
    async def WantNone(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
        raise ValueError(f"types: {func.checked_type_}")

    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  add(%x, %x)\n}\n'
    mod = relay.parse(text)
    for index, typed in enumerate((mod, await relay.transform.InferType()(mod))):
        folder = await reproducer(WantNone, typed, tmp_path / str(index))
        result = await apass.replay(folder, WantNone)
        assert (result.verdict, result.reproducer.module_file) == (apass.debugging.Verdict.SAME, "module.relay")


async def test_replay_imports_no_recorded_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path / "r")
    path = folder / "reproducer.json"
    facts = json.loads(path.read_text())
    for text in ("Unknown", "FailOn", "If{predicate=hostile:go}(FailOn{value=1})"):
        path.write_text(json.dumps({**facts, "defined_in": "hostile", "pipeline": text}))
        with pytest.raises(apass.errors.ReproducerError, match="pipeline"):
            await apass.replay(folder)


async def test_what_reaches_outside_is_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    def touch(path: Path) -> apass.Pass[Any]:
        ran.append(str(path))
        return FailOn(1)

    option = apass.register_config_option("t.folder", Path, default=Path())
    apass.register_pass("t.Touch", touch)
    try:
        folder = await reproducer(apass.get_pass("t.Touch", path=tmp_path / "new"), {"f": 1}, tmp_path / "r")
        for run in (apass.replay, apass.reduce):
            ran.clear()
            with pytest.raises(
                apass.errors.ReproducerError, match=r"is not run: option 'path' of pass 't\.Touch' reads or writes"
            ):
                await run(folder)
            assert ran == []
            await run(folder, allow=["t.Touch{path}"])
            assert ran != []
        path = folder / "reproducer.json"
        facts = json.loads(path.read_text())
        facts["context"]["config"] = {option.key: "/etc"}
        path.write_text(json.dumps(facts))
        with pytest.raises(apass.errors.ReproducerError, match=r"its config option 't\.folder' reads or writes files"):
            await apass.replay(folder, allow=["t.Touch{path}"])
        await apass.replay(folder, allow=["t.Touch{path}", "t.folder"])
    finally:
        apass.unregister_pass("t.Touch")


@pytest.mark.parametrize("text", ["", "FailOn{value=1},FailOn{value=1}", "FailOn{value=1}),Sequential(Strict", "# ("])
async def test_pipeline_of_reproducer_is_one_pass(text: str, tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    path = folder / "reproducer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pipeline": text}))
    with pytest.raises(
        apass.errors.ReproducerError, match="has an invalid pipeline: PipelineSyntaxError: expected one pass"
    ):
        await apass.replay(folder)


async def test_invalid_reproducers_raise(tmp_path: Path) -> None:
    with pytest.raises(
        apass.errors.ReproducerError, match=r"no reproducer in '.*nowhere': .*; give a folder that has a repr"
    ):
        await apass.replay(tmp_path / "nowhere")
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    factory = find_recipe("FailOn").factory
    apass.unregister_pass("FailOn")
    try:
        with pytest.raises(
            apass.errors.ReproducerError, match=r"has the pipeline FailOn{value=1}, which.*was defined in 'tests"
        ):
            await apass.replay(folder)
    finally:
        apass.register_pass("FailOn", factory)
    facts = json.loads((folder / "reproducer.json").read_text())
    (folder / "reproducer.json").write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(
        apass.errors.ReproducerError, match="was written by another version of apass; its format must be 1"
    ):
        await apass.replay(folder)
    (folder / "reproducer.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(apass.errors.ReproducerError, match="json has no field 'failure'; write the reproducer again"):
        await apass.replay(folder)
    (folder / "reproducer.json").write_text(json.dumps({**facts, "module_type": "nowhere:Module"}))
    with pytest.raises(apass.errors.ReproducerError, match="no IR adapter for modules of type nowhere:Module"):
        await apass.replay(folder)


async def test_replay_gives_the_recorded_answers(tmp_path: Path) -> None:
    asked: list[object] = []

    async def judge(question: object) -> str:
        asked.append(question)
        if len(asked) > 4:
            raise OSError("the service is gone")
        return "bad" if question == 7 else "good"

    service: Service[object, str] = Service(judge, name="judge")

    @apass.function_pass(opt_level=0)
    async def Judge(func: int, mod: Module, ctx: apass.PassContext) -> int:
        if await service.ask(func) == "bad":
            raise ValueError(f"{func} is bad")
        return func + 1

    apass.register_pass("replay.Judge", Judge)
    try:
        folder = await reproducer(apass.Sequential([Judge, Judge]), {"f": 5, "g": 6}, tmp_path)
        recorded = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()[1:]]
        # Without the answers that the first execution of the pass asked for.
        assert [line["question"] for line in recorded] in ([7], [6, 7])
        result = await apass.replay(folder, "replay.Judge")
        assert (result.verdict, repr(result.error)) == (apass.debugging.Verdict.SAME, "ValueError('7 is bad')")
        reduced = await apass.reduce(folder, "replay.Judge")
        assert (reduced.after.functions, (reduced.folder / "module.json").read_text()) == (1, '{"g": 7}')
        assert (await apass.replay(reduced.folder, "replay.Judge")).verdict is apass.debugging.Verdict.SAME
        other = await apass.replay(folder, apass.Sequential([add_one, add_one, Judge]))
        assert isinstance(other.error, apass.errors.UnknownAnswerError)
        other = await apass.replay(folder, apass.Sequential([add_one, add_one, Judge]), unknown_answers="ask")
        assert "OSError('the service is gone')" in repr(other.error)
    finally:
        apass.unregister_pass("replay.Judge")
