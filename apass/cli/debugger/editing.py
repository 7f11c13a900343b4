"""Editing a module in the editor of the user."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from anyio import run_process
from anyio.to_thread import run_sync

from apass.batch.formats import ModelFormat
from apass.cli.inputs import split_command
from apass.core.adapter import suffix_of
from apass.core.ir_plugin import IRPlugin, plugin_for
from apass.errors import AdapterError, InputError

__all__ = ["Edited", "edit_module", "editor_command", "run_editor"]

DEFAULT_EDITOR = "vi"
"""The editor if none is set: POSIX requires it."""


@dataclass(frozen=True, slots=True)
class Edited:
    """What came out of the editor."""

    data: bytes
    """The contents of the file, to edit again."""
    mod: Any
    """The module; None if the file is unchanged or is no module."""
    error: Exception | None = None
    """Why the file is no module."""


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the words of the command in `VISUAL` or `EDITOR`.

    Raises:
        InputError: if a quote in it is not closed.

    """
    for name in ("VISUAL", "EDITOR"):
        if environ.get(name, "").strip():
            return split_command(f"${name}", environ[name], DEFAULT_EDITOR)
    return [DEFAULT_EDITOR]


async def run_editor(command: list[str], path: Path) -> None:
    """Edit a file in the terminal of this process.

    Raises:
        InputError: if the editor cannot be started, or fails.

    """
    try:
        result = await run_process([*command, str(path)], stdin=None, stdout=None, stderr=None, check=False)
    except OSError as error:
        raise InputError(f"cannot start the editor {command[0]!r}: {error.strerror}; set EDITOR") from None
    if result.returncode:
        raise InputError(f"the editor {command[0]!r} failed with status {result.returncode}; nothing was changed")


async def edit_module(
    mod: Any, edit: Callable[[Path], Awaitable[None]], folder: Path, data: bytes | None = None
) -> Edited:
    """Write a module to a file, edit the file, and read it.

    Parameters:
        mod: the module.
        edit: edits the file.
        folder: where a folder for the file is created. A module may read weights from it as long as it lives.
        data: the contents of the file to begin with, in place of the module; for a second try.

    Raises:
        AdapterError: if the files of the IR are no text.
        Exception: an error of `edit`, or of the adapter when it writes the module.

    """
    plugin = plugin_for(mod)
    path = Path(mkdtemp(dir=folder), f"module{_suffix(plugin)}")
    before = await _call(plugin, lambda: _written(plugin, mod, path))
    if data is not None:
        await run_sync(path.write_bytes, data)
    await edit(path)
    after = await run_sync(path.read_bytes)
    if after == before:
        return Edited(after, None)
    try:
        return Edited(after, await _call(plugin, lambda: plugin.read(path)))
    except Exception as error:  # adapters raise anything for invalid text
        return Edited(after, None, error)


def _suffix(plugin: IRPlugin[Any]) -> str:
    first = plugin.suffixes[0] if plugin.suffixes else suffix_of(plugin.adapter)
    return plugin.text_suffix or first


def _written(plugin: IRPlugin[Any], mod: Any, path: Path) -> bytes:
    """Write a module, and return the contents of the file."""
    ModelFormat(plugin).save(mod, path)
    data = path.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        raise AdapterError(
            f"modules of type {type(mod).__qualname__} are written as binary files, which no editor can change"
        ) from None
    return data


async def _call(plugin: IRPlugin[Any], work: Callable[[], Any]) -> Any:
    return await run_sync(work) if plugin.adapter.thread_safe else work()
