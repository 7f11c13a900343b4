"""`ReproducerInstrument`: one complete folder for each innermost failure."""

import json
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.instruments import ReproducerInstrument
from apass.loading.user_modules import loaded_user_modules
from tests.helpers.failing_passes import FailOn, Inner, Nest, add_one, failing_passes
from tests.helpers.folders import files

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


@pytest.fixture(autouse=True)
def _registered() -> Generator[None]:
    with failing_passes():
        yield


def contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder."""
    return {name: (folder / name).read_bytes() for name in files(folder)}


def facts(folder: Path) -> dict[str, Any]:
    """Return the data of a reproducer that does not depend on the machine."""
    data: dict[str, Any] = json.loads((folder / "reproducer.json").read_text())
    assert set(data.pop("versions")) >= {"apass", "anyio", "python", "platform"}
    return data


async def fail(
    pass_: apass.Pass[Any], mod: Module, folder: Path, name: str | None = "m", **settings: Any
) -> ReproducerInstrument:
    """Run a pass that fails, and return the instrument."""
    instrument = ReproducerInstrument(folder)
    async with apass.PassContext(instruments=[instrument], **settings):
        if name is None:
            with pytest.raises(Exception, match=r"."):
                await pass_(mod)
        else:
            outcomes = await apass.optimize_all({name: mod}, pass_, errors="collect")
            assert outcomes[name].error is not None
    return instrument


async def test_folder_contains_module_settings_and_traceback(tmp_path: Path, anyio_backend: str) -> None:
    pipeline = apass.Sequential([add_one, FailOn(3), add_one])
    instrument = await fail(pipeline, {"f": 1, "g": 2}, tmp_path / "new", opt_level=1, disabled_pass=["Strict"])
    folder = tmp_path / "new" / "m" / "1_FailOn"
    assert instrument.folders == [folder]
    assert files(tmp_path) == [
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
        "loaded": [module.source for module in loaded_user_modules()],
        "module": "m",
        "position": "0:sequential/1:FailOn",
        "function": "g",
        "failure": {"type": "builtins.ValueError", "message": "cannot do 3"},
        "context": {
            "opt_level": 1,
            "disabled": ["Strict"],
            "required": [],
            "config": {},
            "lost": [],
            "schedule": None,
        },
        "verify": None,
        "backend": anyio_backend,
        "module_type": "builtins:dict",
        "module_file": "module.json",
        "verify_outputs": None,
        "answers_file": None,
        "facts": None,
        "trouble": None,
    }
    traceback = (folder / "traceback.txt").read_text()
    assert traceback.startswith("Traceback (most recent call last):")
    assert traceback.endswith("ValueError: cannot do 3\nin pass 'sequential > FailOn', function 'g', module 'm'\n")


async def test_only_the_innermost_failed_pass_is_written(tmp_path: Path) -> None:
    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[instrument]):
        with pytest.raises(KeyError) as caught:
            await apass.Sequential([apass.Sequential([Nest], name="inner")])({"f": 1, "g": 13})
    folder = tmp_path / "module" / "0_inner.0_Nest@g.0_Inner"
    assert instrument.folders == [folder]
    assert caught.value.__notes__[1:] == [f"reproducer: {folder}"]
    assert json.loads((folder / "module.json").read_text()) == {"bad": 13}
    assert (facts(folder)["pipeline"], facts(folder)["rest"]) == ("Inner", None)


async def test_translated_error_has_one_folder(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Translate(mod: Module, ctx: apass.PassContext) -> Module:
        try:
            result: Module = await Inner(mod)
        except KeyError as error:
            raise RuntimeError("translated") from error
        return result

    instrument = await fail(apass.Sequential([Translate]), {"bad": 1}, tmp_path)
    assert [path.name for path in instrument.folders] == ["0_Translate.0_Inner"]


async def test_failure_after_a_caught_failure_has_a_folder(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Stubborn(mod: Module, ctx: apass.PassContext) -> Module:
        with suppress(KeyError):
            await Inner(mod)
        raise RuntimeError("another")

    instrument = await fail(apass.Sequential([Stubborn]), {"bad": 1}, tmp_path)
    assert [path.name for path in instrument.folders] == ["0_Stubborn", "0_Stubborn.0_Inner"]


async def test_failed_race_alternative_has_a_folder(tmp_path: Path) -> None:
    instrument = ReproducerInstrument(tmp_path)
    async with apass.PassContext(instruments=[instrument]):
        assert await apass.Race([FailOn(1), add_one], key=len)({"f": 1}) == {"f": 2}
    assert [path.name for path in instrument.folders] == ["0_FailOn"]


async def test_second_failure_keeps_the_first_folder(tmp_path: Path) -> None:
    for value in (1, 2):
        await fail(FailOn(value), {"f": value}, tmp_path)
    pipelines = {path.name: facts(path)["pipeline"] for path in (tmp_path / "m").iterdir()}
    assert pipelines == {"0_FailOn": "FailOn{value=1}", "0_FailOn~2": "FailOn{value=2}"}


async def test_missing_module_and_pipeline_are_explained(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    class Picky:
        def __init__(self, value: object) -> None:
            self.value = value

        async def transform_module(self, mod: Any, ctx: apass.PassContext) -> Any:
            raise ValueError(self.value)

    picky: Any = Picky
    instrument = await fail(picky(object()), {"f": object()}, tmp_path, name=None)
    (folder,) = instrument.folders
    data = facts(folder)
    assert (data["pipeline"], data["module_file"]) == (None, None)
    assert "the pass has no text: <object object" in data["trouble"]
    assert "; the module could not be written: AdapterError: this dict module cannot be written as" in data["trouble"]
    with pytest.raises(apass.errors.ReproducerError, match="has no module: the pass has no text"):
        await apass.replay(folder)


async def test_reproducer_dir_that_is_a_file_raises(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(NotADirectoryError, match=r"reproducers need a folder, got the file '.*f'; choose another path"):
        ReproducerInstrument(tmp_path / "f")
