"""Finds names in code font that nothing in the repository has.

They are commands, options, files, entry point groups and Python names.
"""

import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import typer
from packaging.requirements import Requirement

from apass.cli.app import COMMANDS, app, load_command
from tests.helpers.layers import MODULES
from tests.helpers.repository import ROOT

FOLDERS: Final = ("apass", "benchmarks", "docs", "examples", "tests", ".ci", ".github", ".news")
"""The folders of the repository whose files a page may name."""
_FENCE: Final = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_PATH: Final = re.compile(r"(?:[\w.*-]*/)+[\w.*-]*(?:::\w+)?|[\w.*]+\.(?:py|md|toml|yml)")
_GROUP: Final = re.compile(r'entry points? (?:of |group )?`(apass\.\w+)`|\[project\.entry-points\."([^"]+)"\]')
_OWNER: Final = re.compile(r"`(\w+)[^`]*` (?:in |of |from |\()`([\w./]+\.py)`")
"""A name and the file that defines it."""
_DOTTED: Final = re.compile(r"apass(\.(?!toml)\w+)+")
_NAME: Final = re.compile(r"@?(\w+)(?:\(.*\))?")
_DEFINITION: Final = re.compile(
    r"(?:def|class|import|as) (\w+)|^ *(\w+)(?:: [^=\n]+)? = |^ +(\w+): |[(,] ?(\w+)(?:: [\w\[\]., |]+)?[,)=]",
    re.MULTILINE,
)
_PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())
_EXTRAS: Final = _PROJECT["project"]["optional-dependencies"]
_TOOLS: Final = {Requirement(text).name for texts in _EXTRAS.values() for text in texts} - {"apass"}


def unknown(text: str) -> list[str]:
    """Return the commands, files, groups and modules that do not exist."""
    spans = code(text)
    blocks = [block for _, language, block in _FENCE.findall(text) if language == "sh"]
    commands = [command for block in (*spans, *blocks) for command in commands_of(block)]
    found = [f"{command}: {wrong}" for command in commands for wrong in wrong_in_command(command)]
    found += [path for path in spans if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and not files(path)]
    found += [group for pair in _GROUP.findall(text) for group in pair if group and group not in groups()]
    return found + [name for name in spans if _DOTTED.fullmatch(name) and not is_name_of_apass(name)]


def unknown_to_contributors(text: str) -> list[str]:
    """Return the code that is neither a command, a file nor a defined name."""
    defined = defined_names() | markers() | _TOOLS | _EXTRAS.keys()
    found: list[str] = []
    for word in code(text):
        if word.split()[0] in _TOOLS | {"apass", "python"} or _GROUP.fullmatch(word) or is_name_of_apass(word):
            continue
        name = _NAME.fullmatch(word)
        if not (files(word) if _PATH.fullmatch(word) else name and name[1] in defined):
            found.append(word)
    for name, path in _OWNER.findall(" ".join(text.split())):
        if not any(re.search(rf"\b{name}\b", file.read_text()) for file in files(path)):
            found.append(f"{name} in {path}")
    return found


def code(text: str) -> list[str]:
    """Return the code in the sentences of a page."""
    return list(dict.fromkeys(re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))))


def commands_of(block: str) -> Iterator[str]:
    """Iterate over the commands of a block, each without what follows a pipe."""
    for line in block.replace("\\\n", " ").splitlines():
        yield from re.split(r"&&|;|\|", line.partition(" #")[0])


def wrong_in_command(command: str) -> Iterator[str]:
    """Iterate over what a command names and nothing has; the command may be any text."""
    try:
        words = shlex.split(command)
    except ValueError:
        return
    match words:
        case [("nox" | "pytest" | ".venv/bin/pytest") as program, *words]:
            yield from sorted(set(after(words, "-s")) - sessions())
            yield from (path for path in words if _PATH.fullmatch(path) and not files(path))
            if program != "nox":
                expression = set(re.findall(r"\w+", " ".join(after(words, "-m"))))
                yield from sorted(expression - {"not", "and", "or"} - markers())
        case ["python", *words]:
            yield from (module for module in after(words, "-m")[:1] if not is_module(module))
        case ["apass", *words]:
            options = [word.partition("=")[0] for word in words if re.match("-[a-zA-Z]$|--[a-z]", word)]
            yield from sorted(set(options) - options_of(command_of(words)))
        case _:
            pass
    for extras in re.findall(r"(?:apass|\.)\[([\w,-]+)\]", command):
        yield from sorted(set(extras.split(",")) - _EXTRAS.keys())


def after(words: Sequence[str], option: str) -> Sequence[str]:
    """Return the words between an option and the next one."""
    rest = words[words.index(option) + 1 :] if option in words else ()
    return rest[: next((place for place, word in enumerate(rest) if word.startswith("-")), len(rest))]


def is_module(name: str) -> bool:
    """Return whether a name is a module; a last part `NAME` is ignored."""
    return find_spec(name.removesuffix(".NAME")) is not None


@cache
def command_line() -> Any:
    """Return the command `apass` with all of its commands."""
    root: Any = typer.main.get_command(app)
    root.commands = {name: load_command(name) for name in COMMANDS}
    return root


def command_of(words: Sequence[str]) -> Any:
    """Return the command of `apass` that the words after it call."""
    return next((command_line().commands[word] for word in words if word in COMMANDS), command_line())


def options_of(command: Any) -> set[str]:
    """Return the options of a command, and of its commands."""
    names = {"-h", "--help", "--load", *(name for one in command.params for name in (*one.opts, *one.secondary_opts))}
    return names.union(*map(options_of, getattr(command, "commands", {}).values()))


def files(path: str) -> list[Path]:
    """Return the files and folders of a path, also of one below a folder.

    `*` and `NAME` match any name.
    """
    pattern = path.partition("::")[0].replace("NAME", "*").rstrip("/")
    if pattern in tree():
        return [tree()[pattern]]
    return [file for name, file in tree().items() if fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")]


@cache
def tree() -> dict[str, Path]:
    """Return the files and folders of the repository by their paths in it."""
    paths = [*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder, *(ROOT / folder).rglob("*")))]
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


@cache
def sessions() -> set[str]:
    """Return the names of the sessions of nox."""
    text = (ROOT / "noxfile.py").read_text()
    found = re.findall(r'^@nox\.session(?:\(.*?name="([\w-]+)".*?\)|.*)\ndef (\w+)', text, re.MULTILINE)
    return {name or function.replace("_", "-") for name, function in found}


@cache
def markers() -> set[str]:
    """Return the markers of the tests."""
    return {text.partition(":")[0] for text in _PROJECT["tool"]["pytest"]["ini_options"]["markers"]}


@cache
def groups() -> set[str]:
    """Return the groups of entry points that apass reads."""
    readers = [text for path in MODULES.values() if "apass.loading.entry_points" in (text := path.read_text())]
    return {name for text in readers for name in re.findall(r'(?:: Final = |plugins\(|modules\()"(apass\.\w+)"', text)}


def is_name_of_apass(name: str) -> bool:
    """Return whether a text is a dotted name below `apass`.

    Names of loggers and of groups are texts in the code.
    """
    try:
        return bool(_DOTTED.fullmatch(name)) and (name in quoted() or resolve_name(name) is not None)
    except (ImportError, AttributeError):
        return False


@cache
def quoted() -> set[str]:
    """Return the dotted names below `apass` that the code has as texts."""
    return {name for path in MODULES.values() for name in re.findall(r'"(apass\.\w+)"', path.read_text())}


@cache
def defined_names() -> set[str]:
    """Return the functions, classes, parameters, attributes and constants."""
    sources = [path.read_text() for name, path in tree().items() if name.endswith(".py")]
    return {name for source in sources for names in _DEFINITION.findall(source) for name in names if name}
