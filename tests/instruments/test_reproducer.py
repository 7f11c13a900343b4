"""`ReproducerInstrument`: one whole folder for each innermost failure, the same whatever else is at work."""

import json
import random
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

import apass
from apass.instruments import ReproducerInstrument
from tests.helpers.failing_passes import FailOn, Inner, Nest, add_one, failing_passes

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


@pytest.fixture(autouse=True)
def _registered() -> Generator[None]:
    with failing_passes():
        yield


def names(folder: Path) -> list[str]:
    """Return every file below a folder, hidden ones too."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {name: (folder / name).read_bytes() for name in names(folder)}


def facts(folder: Path) -> dict[str, Any]:
    """Return what a reproducer says, without what depends on the machine."""
    found: dict[str, Any] = json.loads((folder / "reproducer.json").read_text())
    assert set(found.pop("versions")) >= {"apass", "anyio", "python", "platform"}
    return found


async def fail(
    pass_: apass.Pass[Any], mod: Module, folder: Path, name: str | None = "m", **settings: Any
) -> ReproducerInstrument:
    """Run a pass that fails."""
    instrument = ReproducerInstrument(folder)
    async with apass.PassContext(instruments=[instrument], **settings):
        if name is None:
            with pytest.raises(Exception, match=r"."):
                await pass_(mod)
        else:
            outcomes = await apass.optimize_all({name: mod}, pass_, errors="collect")
            assert outcomes[name].error is not None
    return instrument


async def test_a_folder_has_all_that_it_takes(tmp_path: Path, anyio_backend: str) -> None:
    pipeline = apass.Sequential([add_one, FailOn(3), add_one])
    instrument = await fail(pipeline, {"f": 1, "g": 2}, tmp_path / "new", opt_level=1, disabled_pass=["Strict"])
    folder = tmp_path / "new" / "m" / "1_FailOn"
    assert instrument.folders == [folder]
    assert names(tmp_path) == [
        "new/m/1_FailOn/module.json",
        "new/m/1_FailOn/reproducer.json",
        "new/m/1_FailOn/traceback.txt",
    ]
    assert json.loads((folder / "module.json").read_text()) == {"f": 2, "g": 3}
    assert facts(folder) == {
        "format": 1,
        "pass_name": "FailOn",
        "pipeline": "FailOn{value=3}",
        "rest": "add_one",
        "defined_in": "tests.helpers.failing_passes",
        "module": "m",
        "position": "0:sequential/1:FailOn",
        "function": "g",
        "failure": {"type": "builtins.ValueError", "message": "cannot do 3"},
        "context": {"opt_level": 1, "disabled": ["Strict"], "required": [], "config": {}, "lost": []},
        "verify": None,
        "backend": anyio_backend,
        "module_type": "builtins:dict",
        "module_file": "module.json",
        "facts": None,
        "trouble": None,
    }
    told = (folder / "traceback.txt").read_text()
    assert told.startswith("Traceback (most recent call last):")
    assert told.endswith("ValueError: cannot do 3\nin pass 'sequential > FailOn', function 'g', module 'm'\n")


async def test_only_the_innermost_pass_that_failed_is_written_and_the_error_names_the_folder(tmp_path: Path) -> None:
    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[instrument]):
        with pytest.raises(KeyError) as caught:
            await apass.Sequential([apass.Sequential([Nest], name="inner")])({"f": 1, "g": 13})
    folder = tmp_path / "module" / "0_inner.0_Nest@g.0_Inner"
    assert instrument.folders == [folder]
    assert caught.value.__notes__[1:] == [f"reproducer: {folder}"]
    assert json.loads((folder / "module.json").read_text()) == {"bad": 13}
    assert (facts(folder)["pipeline"], facts(folder)["rest"]) == ("Inner", None)


async def test_an_error_that_a_pass_makes_of_another_has_one_folder(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Translate(mod: Module, ctx: apass.PassContext) -> Module:
        try:
            result: Module = await Inner(mod)
        except KeyError as error:
            raise RuntimeError("translated") from error
        return result

    instrument = await fail(apass.Sequential([Translate]), {"bad": 1}, tmp_path)
    assert [path.name for path in instrument.folders] == ["0_Translate.0_Inner"]


async def test_a_failure_after_one_that_was_caught_has_a_folder_of_its_own(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Stubborn(mod: Module, ctx: apass.PassContext) -> Module:
        with suppress(KeyError):
            await Inner(mod)
        raise RuntimeError("another")

    instrument = await fail(apass.Sequential([Stubborn]), {"bad": 1}, tmp_path)
    assert [path.name for path in instrument.folders] == ["0_Stubborn", "0_Stubborn.0_Inner"]


async def test_a_failing_alternative_of_a_race_has_a_folder_though_the_module_has_none(tmp_path: Path) -> None:
    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[instrument]):
        assert await apass.Race([FailOn(1), add_one], key=len)({"f": 1}) == {"f": 2}
    assert [path.name for path in instrument.folders] == ["0_FailOn"]


async def test_a_second_failure_at_the_same_place_keeps_the_first_ones_folder(tmp_path: Path) -> None:
    for value in (1, 2):
        await fail(FailOn(value), {"f": value}, tmp_path)
    found = {path.name: facts(path)["pipeline"] for path in (tmp_path / "m").iterdir()}
    assert found == {"0_FailOn": "FailOn{value=1}", "0_FailOn~2": "FailOn{value=2}"}


async def test_what_cannot_be_written_is_said_to_be_missing(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    class Picky:
        def __init__(self, what: object) -> None:
            self.what = what

        async def transform_module(self, mod: Any, ctx: apass.PassContext) -> Any:
            raise ValueError(self.what)

    picky: Any = Picky
    instrument = await fail(picky(object()), {"f": object()}, tmp_path, name=None)
    (folder,) = instrument.folders
    found = facts(folder)
    assert (found["pipeline"], found["module_file"]) == (None, None)
    assert "the pass has no text: <object object" in found["trouble"]
    assert "; the module could not be written: AdapterError: this dict module cannot be written as" in found["trouble"]
    with pytest.raises(apass.ReproducerError, match="has no module: the pass has no text"):
        await apass.replay(folder)


async def test_a_cancelled_pass_has_not_failed(tmp_path: Path) -> None:
    begun = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: apass.PassContext) -> Module:
        begun.set()
        await anyio.sleep_forever()
        return mod

    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[instrument]), anyio.create_task_group() as tasks:
        tasks.start_soon(Wait, {"f": 1})
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert (instrument.folders, names(tmp_path)) == ([], [])


async def test_a_file_is_no_folder_for_reproducers(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(NotADirectoryError, match=r"reproducers go into a folder, and '.*f' is a file; choose another"):
        ReproducerInstrument(tmp_path / "f")


async def test_two_hundred_modules_at_once_leave_the_folders_that_they_leave_one_by_one(tmp_path: Path) -> None:
    dice = random.Random(4)
    modules = {
        # No value twice, so that the function that fails first is the only one.
        f"m{index}": {f"f{place}": value for place, value in enumerate(dice.sample(range(14), 4))}
        | ({"bad": 0} if dice.random() < 0.1 else {})
        for index in range(200)
    }
    pipeline: apass.Pass[Any] = apass.Sequential(
        [
            add_one,
            apass.Sequential([FailOn(3), Nest], name="inner"),
            Inner,
            FailOn(9),
            apass.Repeat([add_one], times=2),
        ]
    )
    found: list[dict[str, Any]] = []
    for limit in (1, 200):
        instrument = ReproducerInstrument(tmp_path / str(limit))
        async with apass.PassContext(instruments=[instrument]):
            outcomes = await apass.optimize_all(modules, pipeline, limit=limit, errors="collect")
        assert {one.name for one in outcomes.values() if one.error} == {path.parent.name for path in instrument.folders}
        texts = contents(tmp_path / str(limit))
        assert len(texts) == 3 * len(instrument.folders)
        found.append({path: text for path, text in texts.items() if not path.endswith("traceback.txt")})
    assert len(found[0]) > 100
    assert found[0] == found[1]
