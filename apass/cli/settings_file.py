"""The settings file: modules to load, and defaults of the options of commands."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from apass.errors import InputError, did_you_mean

__all__ = ["find_settings", "option_defaults", "settings_in"]

_FILES: Final = ("apass.toml", "pyproject.toml")
"""Settings files; the first of a folder that has settings counts."""

_NO_DEFAULT: Final = {"--load", "--help"}
"""Options without a default in a command's table: modules to load are those of all commands."""


def find_settings(folder: Path) -> Path | None:
    """Return the nearest file with settings of apass, or None.

    It is in the folder or above: an `apass.toml`, or a `pyproject.toml` that has a table `tool.apass`.

    Raises:
        InputError: if a file cannot be read.

    """
    for parent in (folder, *folder.parents):
        for name in _FILES:
            path = parent / name
            # Most files are of other projects. Searching for the word is faster than parsing.
            if (
                path.is_file()
                and (name == "apass.toml" or b"apass" in _contents(path))
                and settings_in(path) is not None
            ):
                return path
    return None


def option_defaults(command: Sequence[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that the settings file has for a command, by parameter.

    Parameters:
        command: the words of the command, such as `["jobs", "list"]`.
        flags: the options of the command by their names.

    Raises:
        InputError: if the file cannot be read, names an unknown option, or a value has the wrong kind.

    """
    path = find_settings(Path.cwd())
    table: Any = None if path is None else settings_in(path)
    for word in command:
        table = cast("dict[str, Any]", table).get(word) if isinstance(table, dict) else None
    if table is None:
        return {}
    where = f"{path}: tool.apass.{'.'.join(command)}"
    if not isinstance(table, dict):
        raise InputError(f"{where} must be a table of options, got {table!r}")
    return dict(_defaults(where, cast("dict[str, Any]", table), flags))


def _defaults(where: str, table: Mapping[str, Any], flags: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    usable = {flag: option for flag, option in flags.items() if flag in option.opts and flag not in _NO_DEFAULT}
    names = {flag[2:]: option for flag, option in usable.items() if flag.startswith("--")}
    for key, value in table.items():
        option = names.get(key)
        if option is None:
            raise InputError(f"{where} has the unknown option {key!r}{did_you_mean(key, names)}")
        if option.is_flag:
            expected, is_right = "true or false", isinstance(value, bool)
        elif option.multiple:
            expected, is_right = "a list", isinstance(value, list)
        else:
            is_right = isinstance(value, str | int | float) and not isinstance(value, bool)
            expected = "a text or a number"
        if not is_right:
            raise InputError(f"{where}: {key} must be {expected}, got {value!r}")
        yield option.name, value


def settings_in(path: Path) -> dict[str, Any] | None:
    """Return the settings in a file, or None if it has none."""
    try:
        data = tomllib.loads(_contents(path).decode())
    except ValueError as error:  # it is not UTF-8, or not TOML
        raise InputError(f"cannot read {path}: {error}") from None
    table: Any = data
    if path.name != "apass.toml":
        tool = data.get("tool")
        table = cast("dict[str, Any]", tool).get("apass") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise InputError(f"{path}: tool.apass must be a table, got {table!r}")
    return cast("dict[str, Any] | None", table)


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
