"""Editing a module: the text of each IR, and what an editor may leave behind."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.adapters.mapping import DictAdapter
from apass.adapters.onnx import load_model
from apass.cli.debugger.editing import Edited, edit_module, editor_command
from apass.relay import IRModule, parse
from tests.helpers.command_line import PROGRAM, write_external, write_model

# Textual runs on asyncio only.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


class Binary(dict[str, Any]):
    """A module of an IR without a text."""


class BinaryAdapter(DictAdapter):
    """Writes modules as bytes that are no text."""

    def dumps(self, mod: Any) -> bytes:
        return b"\xff"


apass.register_adapter(Binary, BinaryAdapter())


Edit = Callable[..., Awaitable[tuple[Edited, str]]]


@pytest.fixture
def edited(tmp_path: Path) -> Edit:
    """Return a function that edits a module in a folder of the test."""
    return partial(edit_in, tmp_path)


async def edit_in(folder: Path, mod: Any, old: str, new: str, data: bytes | None = None) -> tuple[Edited, str]:
    """Replace a text in the file of a module; return the result and the file name."""
    names: list[str] = []

    async def edit(path: Path) -> None:
        names.append(path.name)
        replace_in(path, old, new)

    return await edit_module(mod, edit, folder, data), names[0]


def replace_in(path: Path, old: str, new: str) -> None:
    """Replace a text in a file."""
    path.write_text(path.read_text().replace(old, new))


async def test_relay_is_edited_as_text(edited: Edit) -> None:
    result, name = await edited(parse(PROGRAM), "multiply", "divide")
    assert name == "module.relay"
    assert isinstance(result.mod, IRModule)
    assert "divide" in str(result.mod)


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental")
async def test_onnx_is_edited_as_text(edited: Edit, tmp_path: Path) -> None:
    result, name = await edited(load_model(write_model(tmp_path / "m.onnx")), "Relu", "Abs")
    assert name == "module.onnxtxt"
    assert next(iter(result.mod.graph)).op_type == "Abs"


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental")
async def test_edited_onnx_keeps_external_weights(edited: Edit, tmp_path: Path) -> None:
    result, _ = await edited(load_model(write_external(tmp_path / "m.onnx")), "Add", "Sub")
    assert result.error is None
    weights = result.mod.graph.initializers["w"].const_value.numpy()
    assert weights.tolist() == list(range(512))


async def test_mapping_is_edited_as_json(edited: Edit) -> None:
    result, name = await edited({"f": 1}, "1", "2")
    assert (result.mod, name) == ({"f": 2}, "module.json")


async def test_unchanged_text_gives_no_module(edited: Edit) -> None:
    result, _ = await edited({"f": 1}, "9", "2")
    assert (result.mod, result.error) == (None, None)


async def test_broken_text_is_kept_for_another_try(edited: Edit) -> None:
    broken, _ = await edited({"f": 1}, "}", "")
    assert broken.mod is None
    assert broken.error is not None
    repaired, _ = await edited({"f": 1}, '{"f": 1', '{"f": 3}', broken.data)
    assert repaired.mod == {"f": 3}


async def test_binary_files_are_refused(edited: Edit) -> None:
    with pytest.raises(apass.errors.AdapterError, match="modules of type Binary are written as binary files"):
        await edited(Binary({"f": 1}), "1", "2")


async def test_editor_comes_from_environment() -> None:
    assert editor_command({}) == ["vi"]
    assert editor_command({"EDITOR": "code --wait", "VISUAL": " "}) == ["code", "--wait"]
    assert editor_command({"EDITOR": "ed", "VISUAL": "vim"}) == ["vim"]
