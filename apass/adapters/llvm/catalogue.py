"""The passes that an `opt` lists: their levels and parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from apass.adapters.program_catalogues import kept_catalogue
from apass.adapters.programs import OPT
from apass.errors import AdapterError

__all__ = ["EMPTY", "LEVELS", "MARK", "Catalogue", "Level", "ParameterEntry", "PassEntry", "catalogue_of", "read_list"]

Level = Literal["module", "cgscc", "function", "loop", "machine-function"]
"""What a pass runs on."""

LEVELS: Final[Sequence[Level]] = get_args(Level)
"""The levels, the outermost first."""

Kind = Literal["flag", "switch", "int", "str", "list", "level"]
"""How a parameter is written.

- flag: `single`
- switch: `pre` or `no-pre`
- int, str: `max-iterations=3`
- list: a str that may occur several times
- level: one of `O0` to `Oz`
"""

MARK: Final = "no-op-module"
"""A pass without effect, after which `opt` writes the text of the module to a file."""

_FORMAT: Final = 1
"""The version of cached catalogues; change it when their contents change."""

EMPTY: Final = "define void @f() {\n  ret void\n}\n"
"""A module on which passes have nothing to do."""
_SECTION: Final = re.compile(r"(?P<level>Module|CGSCC|Function|LoopNest|Loop|Machine function) passes(?P<rest>.*):$")
_ANALYSES: Final = re.compile(r"(?P<level>Module|CGSCC|Function|Loop|Machine function) analyses.*:$")
_NAME: Final = re.compile(r"(?P<name>[\w.-]+)(?P<brackets>(?:<.*>)?)$")
_BRACKET: Final = re.compile(r"<((?:[^<>]|<[^<>]*>)*)>")
_LEVEL: Final = re.compile(r"O[0-3sz]")
_KINDS: Final[Mapping[str, Kind]] = {"N": "int", "GV": "list"}
"""The kinds of values, by what the list shows in their place."""
_PREFIX_LEVELS: Final[Mapping[str, Level]] = {
    "Module": "module",
    "CGSCC": "cgscc",
    "Function": "function",
    "LoopNest": "loop",
    "Loop": "loop",
    "Machine function": "machine-function",
}


@dataclass(frozen=True, slots=True)
class ParameterEntry:
    """A parameter of a pass."""

    name: str
    """The name as `opt` reads it, such as `bonus-inst-threshold`; for a switch without `no-`."""
    kind: Kind
    """How it is written."""
    choices: tuple[str, ...] = ()
    """The values of kind `level`."""


@dataclass(frozen=True, slots=True)
class PassEntry:
    """A pass of `opt`."""

    name: str
    """The name, such as `simplifycfg`."""
    levels: tuple[Level, ...]
    """What it runs on; a few names exist on several levels."""
    parameters: tuple[ParameterEntry, ...] = ()
    """The parameters in angle brackets."""
    analyses: tuple[tuple[str, Level], ...] = ()
    """The analyses of a pass such as `print<domtree>`, which must name one, each with its level."""
    adaptor: str = ""
    """The manager that `opt` runs a pass over loops in: `loop` or `loop-mssa`."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All passes of a program."""

    version: str
    """The version of LLVM, and a digest of size and time of the program and of the arguments of each run."""
    passes: tuple[PassEntry, ...]
    """The passes, sorted by name."""
    writes_text: bool
    """Whether the program can write the text of a module beside its bitcode."""


def catalogue_of(program: Path) -> Catalogue:
    """Return the passes of a program; see `kept_catalogue`.

    Raises:
        AdapterError: if the program does not list passes.

    """
    return kept_catalogue(Catalogue, OPT, program, _FORMAT, _ask)


def _ask(program: Path, version: str) -> Catalogue:
    status, text = OPT.output_of(program, ["--print-passes"])
    passes = [] if status else list(read_list(text))
    if not any(entry.name == MARK for entry in passes):
        reason = f": {text.strip().splitlines()[-1]}" if text.strip() and status else ""
        raise AdapterError(
            f"{program} lists no passes with --print-passes{reason}; set {OPT.variable} to the path of opt, and "
            f"{OPT.arguments} to arguments that it accepts"
        )
    passes = [replace(entry, adaptor=_adaptor(program, entry)) if "loop" in entry.levels else entry for entry in passes]
    arguments = (f"-passes={MARK}", f"-print-after={MARK}", "-ir-dump-directory=.", "-disable-output", "--version")
    return Catalogue(version, tuple(passes), OPT.output_of(program, arguments)[0] == 0)


def _adaptor(program: Path, entry: PassEntry) -> str:
    """Return the manager of loops that `opt` chooses for a pass."""
    arguments = [f"-passes={entry.name}", "-print-pipeline-passes", "-disable-output"]
    return "loop-mssa" if "loop-mssa(" in OPT.output_of(program, arguments, EMPTY)[1] else "loop"


def read_list(text: str) -> Iterator[PassEntry]:
    """Iterate over the passes that `opt --print-passes` lists, sorted by name."""
    found: dict[str, PassEntry] = {}
    level: Level | None = None
    analyses: list[tuple[str, Level]] = []
    is_pass = has_parameters = False
    for line in text.splitlines():
        section, analysis = _SECTION.match(line), _ANALYSES.match(line)
        if not line.startswith(" "):
            heading = section or analysis
            level = None if heading is None else _PREFIX_LEVELS[heading["level"]]
            is_pass, has_parameters = section is not None, "with params" in line
        elif level is not None and (match := _NAME.match(line.strip())) is not None:
            if is_pass:
                _add(found, match["name"], _BRACKET.findall(match["brackets"]), level, has_parameters=has_parameters)
            else:
                analyses.append((line.strip(), level))
    for name in ("require", "invalidate") if analyses else ():
        extra = [("all", level) for level in LEVELS[:4]] if name == "invalidate" else []
        found[name] = PassEntry(name, tuple(dict.fromkeys(level for _, level in analyses)), (), (*extra, *analyses))
    yield from (found[name] for name in sorted(found))


def _add(
    found: dict[str, PassEntry], name: str, brackets: Sequence[str], level: Level, *, has_parameters: bool
) -> None:
    """Add a line of the list, which may be one of several for a name."""
    entry = found.get(name, PassEntry(name, ()))
    analyses = list(brackets[:1]) if not has_parameters or len(brackets) > 1 else list[str]()
    parameters = {parameter.name: parameter for parameter in entry.parameters}
    for text in brackets[len(analyses) :]:
        parameters.update((parameter.name, parameter) for parameter in _parameters(text))
    found[name] = replace(
        entry,
        levels=tuple(known for known in LEVELS if known in (*entry.levels, level)),
        parameters=tuple(parameters.values()),
        analyses=(*entry.analyses, *((analysis, level) for analysis in analyses)),
    )


def _parameters(text: str) -> Iterator[ParameterEntry]:
    """Iterate over the parameters in a text such as `no-pre;pre;max-iterations=N`."""
    words = [word for word in text.split(";") if word]
    levels = tuple(word for word in words if _LEVEL.fullmatch(word))
    if levels:
        yield ParameterEntry("level", "level", levels)
    for word in words:
        name, equals, value = word.partition("=")
        if "[" in name or word in levels:
            continue
        if equals:
            yield ParameterEntry(name, _KINDS.get(value, "str"))
        elif f"no-{word}" in words:
            yield ParameterEntry(word, "switch")
        elif not (word.startswith("no-") and word.removeprefix("no-") in words):
            yield ParameterEntry(word, "flag")
