"""`replay`: the same failure again, another one, or none; and what is said where it cannot be tried."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import apass
from apass import relay
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
    """Return the folder of a pass that fails."""
    instrument = ReproducerInstrument(folder)
    async with apass.PassContext(instruments=[instrument], **settings):
        outcomes = await apass.optimize_all({"m": mod}, pass_, errors="collect")
    (error,) = [one.error for one in outcomes.values()]
    assert error is not None
    (made,) = instrument.folders
    return made


async def test_a_failure_happens_again_with_its_type_and_its_message(tmp_path: Path) -> None:
    folder = await reproducer(apass.Sequential([add_one, FailOn(3)]), {"f": 1, "g": 2}, tmp_path)
    found = await apass.replay(folder)
    assert (found.verdict, repr(found.error)) == (apass.Verdict.SAME, "ValueError('cannot do 3')")
    assert found.error is not None
    assert found.error.__notes__ == ["in pass 'FailOn', function 'g', module 'm'"]
    assert found.reproducer == apass.read_reproducer(folder)


async def test_the_context_is_that_of_the_failure_and_the_level_of_the_pass_does_not_matter(tmp_path: Path) -> None:
    settings = {"opt_level": 1, "required_pass": ["Strict"], "disabled_pass": ["Elsewhere"]}
    elsewhere = module_pass_of(lambda mod, ctx: mod, name="Elsewhere")
    folder = await reproducer(apass.Sequential([elsewhere, Strict]), {}, tmp_path, **settings)
    found = await apass.replay(folder)
    assert (found.verdict, str(found.error)) == (apass.Verdict.SAME, "level 1, disabled ['Elsewhere']")


async def test_a_pass_that_was_mended_or_fails_otherwise_is_told(tmp_path: Path) -> None:
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    assert (await apass.replay(folder, add_one)).verdict is apass.Verdict.NONE
    found = await apass.replay(folder, Strict)
    assert (found.verdict, type(found.error)) == (apass.Verdict.OTHER, RuntimeError)
    (folder / "module.json").write_text('{"f": 2}')
    assert (await apass.replay(folder)).verdict is apass.Verdict.NONE


async def test_a_pass_that_broke_its_module_is_found_out_again(tmp_path: Path) -> None:
    lose = module_pass_of(lambda mod, ctx: {**mod, "g": None}, name="Lose")
    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[VerifyInstrument("always"), instrument]):
        await apass.optimize_all({"m": {"f": 1}}, apass.Sequential([add_one, lose]), errors="collect")
    (folder,) = instrument.folders
    found = await apass.replay(folder, lose)
    assert (found.verdict, found.reproducer.verify) == (apass.Verdict.SAME, "always")
    assert found.reproducer.failure.message.startswith("pass 'Lose' broke the module: function 'g'")


async def test_addresses_in_messages_make_no_difference(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Address(mod: Module, ctx: apass.PassContext) -> Module:
        raise ValueError(f"no use for {object()!r}")

    folder = await reproducer(Address, {}, tmp_path)
    assert (await apass.replay(folder, Address)).verdict is apass.Verdict.SAME


async def test_types_of_relay_are_as_they_were(tmp_path: Path) -> None:
    @apass.function_pass(opt_level=0)
    async def WantNone(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
        raise ValueError(f"types: {func.checked_type_}")

    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) {\n  add(%x, %x)\n}\n'
    mod = relay.parse(text)
    for place, one in enumerate((mod, await relay.transform.InferType()(mod))):
        folder = await reproducer(WantNone, one, tmp_path / str(place))
        found = await apass.replay(folder, WantNone)
        assert (found.verdict, found.reproducer.module_file) == (apass.Verdict.SAME, "module.relay")


async def test_what_cannot_be_replayed_is_told(tmp_path: Path) -> None:
    with pytest.raises(apass.ReproducerError, match=r"no reproducer in '.*nowhere': .*; give a folder that has a repr"):
        await apass.replay(tmp_path / "nowhere")
    folder = await reproducer(FailOn(1), {"f": 1}, tmp_path)
    kept = find_recipe("FailOn").factory
    apass.unregister_pass("FailOn")
    try:
        with pytest.raises(apass.ReproducerError, match=r"is of FailOn{value=1}, and that.*registers it \(tests"):
            await apass.replay(folder)
    finally:
        apass.register_pass("FailOn", kept)
    facts = json.loads((folder / "reproducer.json").read_text())
    (folder / "reproducer.json").write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(apass.ReproducerError, match="is of another version of apass; its format must be 1"):
        await apass.replay(folder)
    (folder / "reproducer.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(apass.ReproducerError, match="is no reproducer: KeyError: 'failure'"):
        await apass.replay(folder)
    (folder / "reproducer.json").write_text(json.dumps({**facts, "module_type": "nowhere:Module"}))
    with pytest.raises(apass.ReproducerError, match="modules of type nowhere:Module are not to be found here: No mod"):
        await apass.replay(folder)
