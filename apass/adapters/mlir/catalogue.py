"""The passes that an `mlir-opt` lists: their names, options and anchors."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, Literal

from apass.adapters.program_catalogues import kept_catalogue
from apass.adapters.programs import MLIR_OPT
from apass.errors import AdapterError

__all__ = ["Catalogue", "OptionEntry", "PassEntry", "catalogue_of", "option_pairs", "read_help"]

Kind = Literal["bool", "int", "float", "str", "choice"]

ROOT: Final = "builtin.module"
"""The operation that a pass runs on if nothing else is known."""

_FORMAT: Final = 2
"""The version of cached catalogues; change it when their contents change."""

_KINDS: Final[Mapping[str, Kind]] = {
    "int": "int",
    "uint": "int",
    "long": "int",
    "ulong": "int",
    "number": "float",
    "value": "choice",
}
"""The kinds of options by the placeholder in the help; `str` for all others."""

_SECTION: Final = "  Compiler passes to run"
_PIPELINES: Final = "    Pass Pipelines:"
_PASS: Final = re.compile(r"^ {6}--(?P<name>[\w.-]+)(?:=<[^>]*>)?\s+-\s*(?P<doc>.*)$")
_OPTION: Final = re.compile(r"^ {8}--?(?P<name>[\w.-]+)(?:[ =]<(?P<kind>[^>]*)>)?\s+-\s*(?P<doc>.*)$")
_CHOICE: Final = re.compile(r"^ {4}=(?P<value>\S+)")
_CANNOT_ADD: Final = re.compile(r"failed to add `(?P<name>[^`]+)`")
_CANNOT_SCHEDULE: Final = re.compile(r"unable to schedule pass '(?P<name>[^']+)'")


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """An option of a pass."""

    name: str
    """The name as `mlir-opt` reads it, such as `max-iterations`."""
    kind: Kind
    """What its values are."""
    doc: str
    """The description."""
    choices: tuple[str, ...] = ()
    """The values of an option of kind `choice`."""
    default: str | None = None
    """The text of the default value; None if it is unknown, or an empty list."""
    is_list: bool = False
    """Whether the option takes a list."""


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass of `mlir-opt`, or one of its registered pipelines."""

    name: str
    """The name, such as `convert-scf-to-cf`."""
    doc: str
    """The description."""
    options: tuple[OptionEntry, ...]
    """The options."""
    anchor: str = ROOT
    """The operation that the pass runs on: `builtin.module` unless the pass is restricted to another one."""
    is_pipeline: bool = False
    """Whether it is a pipeline."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All passes of a program."""

    version: str
    """The version of LLVM, and a digest of size and time of the program and of the arguments of each run."""
    passes: tuple[PassEntry, ...]
    """The passes, in the order of the help."""


def catalogue_of(program: Path) -> Catalogue:
    """Return the passes of a program; see `kept_catalogue`.

    Raises:
        AdapterError: if the program does not list passes.

    """
    return kept_catalogue(Catalogue, MLIR_OPT, program, _FORMAT, _ask)


def _ask(program: Path, version: str) -> Catalogue:
    passes = list(read_help(_run(program, ["--help"])[1]))
    if not passes:
        raise AdapterError(f"{program} lists no passes with --help; set APASS_MLIR_OPT to the path of mlir-opt")
    anchors, defaults = _defaults_of(program, [entry.name for entry in passes if not entry.is_pipeline])
    passes = [_with_defaults(entry, anchors.get(entry.name, ROOT), defaults.get(entry.name)) for entry in passes]
    on_functions = _restricted_to_functions(program, [p.name for p in passes if p.anchor == ROOT and not p.is_pipeline])
    passes = [replace(entry, anchor="func.func") if entry.name in on_functions else entry for entry in passes]
    return Catalogue(version, tuple(passes))


def _run(program: Path, arguments: Sequence[str], text: str = "") -> tuple[int, str]:
    return MLIR_OPT.output_of(program, arguments, text)


def read_help(text: str) -> Iterator[PassEntry]:
    """Iterate over the passes that the help lists, without defaults and anchors."""
    lines = iter(text.splitlines())
    for line in lines:
        if line == _SECTION:
            break
    name, doc, options, is_pipeline = "", "", list[OptionEntry](), False
    for line in lines:
        found = _PASS.match(line)
        if found is not None or (line.startswith("  --") or line == _PIPELINES or not line.strip()):
            if name:
                yield PassEntry(name, doc, tuple(options), is_pipeline=is_pipeline)
            name, options = "", []
            is_pipeline = is_pipeline or line == _PIPELINES
            if found is not None:
                name, doc = found["name"], found["doc"].strip()
            elif line != _PIPELINES:
                return
        elif (option := _OPTION.match(line)) is not None and name:
            label = option["kind"]
            kind: Kind = "bool" if label is None else _KINDS.get(label, "str")
            options.append(OptionEntry(option["name"], kind, option["doc"].strip()))
        elif (choice := _CHOICE.match(line)) is not None and options:
            options[-1] = replace(options[-1], choices=(*options[-1].choices, choice["value"]))


def _defaults_of(program: Path, names: Sequence[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the anchor of each pass, and the defaults of its options.

    The command line nests each pass in the operation that it is restricted to, and `--dump-pass-pipeline` prints the
    nested pipeline with the values of all options. The module is empty, so the passes have nothing to do.
    """
    remaining = list(names)
    while remaining:
        _, printed = _run(program, [*(f"--{name}" for name in remaining), "--dump-pass-pipeline"], "module {}")
        start = printed.find("builtin.module(\n")
        if start >= 0:
            return _read_dump(printed[start:])
        # A pass without its required options cannot be created.
        failed = [match["name"] for match in _CANNOT_ADD.finditer(printed) if match["name"] in remaining]
        if not failed:
            return {}, {}
        remaining = [name for name in remaining if name not in failed]
    return {}, {}


def _read_dump(printed: str) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    anchors: dict[str, str] = {}
    defaults: dict[str, dict[str, str]] = {}
    path: list[str] = []
    for line in printed.splitlines():
        text = line.strip().removesuffix(",")
        if text == ")":
            path.pop()
            if not path:
                break
        elif text.endswith("("):
            path.append(text[:-1])
        else:
            name, _, options = text.partition("{")
            # The first occurrence: a pipeline inside a pass may contain others.
            if name not in anchors:
                anchors[name] = "/".join(path[1:]) or ROOT
                defaults[name] = dict(option_pairs(options.removesuffix("}")))
    return anchors, defaults


def option_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Iterate over the options in `a=1 b={x y} c=`."""
    depth, start = 0, 0
    for index, char in enumerate(f"{text} "):
        depth += (char in "{([") - (char in "})]")
        if char == " " and depth <= 0:
            key, equals, value = text[start:index].partition("=")
            if key:
                yield key, value if equals else "true"
            start = index + 1


def _with_defaults(entry: PassEntry, anchor: str, defaults: Mapping[str, str] | None) -> PassEntry:
    """Return the entry with its anchor and the defaults of its options."""
    if defaults is None:
        return replace(entry, anchor=anchor)
    options = [
        # The dump leaves out lists that are empty, and prints an empty string as nothing after the equals sign.
        replace(option, default=defaults.get(option.name), is_list=option.name not in defaults)
        for option in entry.options
    ]
    return replace(entry, anchor=anchor, options=tuple(options))


def _restricted_to_functions(program: Path, names: Sequence[str]) -> set[str]:
    """Return the passes that run on any kind of function, but not on a module.

    `mlir-opt` does not nest them by itself. It refuses to run the first of them, and names its class.
    """
    remaining, found = list(names), set[str]()
    refused = _first_refused(program, remaining)
    while refused is not None:
        # The name of a class is nearly that of its pass. Try the nearest name first, which saves most of the searches.
        letters = _letters(refused)
        guilty = max(remaining, key=lambda name: SequenceMatcher(None, _letters(name), letters).ratio())
        others = [name for name in remaining if name != guilty]
        following = _first_refused(program, others)
        if following == refused:
            guilty = _search(program, remaining)
            others = [name for name in remaining if name != guilty]
            following = _first_refused(program, others)
        found.add(guilty)
        remaining, refused = others, following
    return found


def _first_refused(program: Path, names: Sequence[str]) -> str | None:
    """Return the class of the first pass that cannot run on a module."""
    if not names:
        return None
    _, printed = _run(program, [f"--pass-pipeline={ROOT}({','.join(names)})"], "")
    match = _CANNOT_SCHEDULE.search(printed)
    return None if match is None else match["name"]


def _search(program: Path, names: Sequence[str]) -> str:
    """Return the first of several passes that cannot run on a module."""
    low, high = 0, len(names)
    while high - low > 1:
        middle = (low + high) // 2
        if _first_refused(program, names[low:middle]) is None:
            low = middle
        else:
            high = middle
    return names[low]


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removesuffix("pass"))
