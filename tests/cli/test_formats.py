"""Reading and writing of files by IR plug-ins."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apass.adapters.mapping import ADAPTER
from apass.cli.formats import ModelFormat
from apass.core.ir_plugin import IRPlugin
from apass.errors import AdapterError
from tests.helpers.folders import files


def _do_nothing(_mod: object, _path: Path) -> None:
    pass


def _remove(_mod: object, path: Path) -> None:
    path.unlink()


def _write_elsewhere(_mod: object, path: Path) -> None:
    path.with_name("other").touch()


@pytest.mark.parametrize("save", [_do_nothing, _remove, _write_elsewhere])
def test_save_fails_if_plugin_writes_nothing(tmp_path: Path, save: Callable[[Any, Path], None]) -> None:
    target = tmp_path / "out" / "a.mine"
    with pytest.raises(AdapterError) as caught:
        ModelFormat(IRPlugin(adapter=ADAPTER, save=save)).save({}, target)
    assert str(caught.value) == (
        f"{target}: save of the IR plug-in of DictAdapter wrote nothing; "
        "it must write the file that its second argument names"
    )
    assert not target.exists()


def test_save_may_write_an_empty_file(tmp_path: Path) -> None:
    ModelFormat(IRPlugin(adapter=ADAPTER, save=lambda _mod, path: path.write_bytes(b""))).save({}, tmp_path / "a.mine")
    assert files(tmp_path) == ["a.mine"]
