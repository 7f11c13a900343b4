"""The passes `llvm.*`: those that `opt` lists, and those of llvmlite."""

import inspect
import keyword
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Optional, cast

from apass.adapters.llvm.catalogue import EMPTY, LEVELS, Level, ParameterEntry, PassEntry
from apass.adapters.llvm.module import Module
from apass.adapters.llvm.opt import Engine, Opt, default_engine, find_opt, needed_opt
from apass.adapters.llvm.passes.llvmlite_passes import PIPELINES, LibraryEntry, library_passes
from apass.adapters.llvm.passes.opt_passes import OptManager, OptPass, OptPipeline
from apass.adapters.llvm.passes.opt_runs import Element
from apass.adapters.programs import OPT, TIME_LIMIT
from apass.core.outside import Outside, reviewed
from apass.core.pass_factories import add_alias
from apass.core.pass_info import PassInfo
from apass.errors import MissingExtraError, PassDefinitionError
from apass.passes.base import Pass
from apass.passes.registry import provide_pass

__all__ = ["MANAGERS", "PREFIX", "identifier_of", "levels_of", "managers_of"]

PREFIX: Final = "llvm."
"""The prefix of the names of these passes."""

_LOOPS: Final = ("loop", "loop-mssa")
MANAGERS: Final[Mapping[str, tuple[Level, tuple[str, ...], tuple[str, ...]]]] = {
    "module": ("module", (), ()),
    "coro-cond": ("module", (), ()),
    "cgscc": ("cgscc", (), ()),
    "devirt": ("cgscc", ("cgscc",), ()),
    "function": ("function", (), ("eager-inv", "no-rerun")),
    "loop": ("loop", ("function",), ()),
    "loop-mssa": ("loop", ("function",), ()),
    "machine-function": ("machine-function", ("function",), ()),
}
"""The managers of `opt`: the level of each, the managers around it, and its flags.

Source: LLVM's `PassBuilder.cpp`.
"""

_DIVISIBLE: Final = frozenset({"module", "function"})
"""The managers whose passes may run one after the other on a module."""

_EXPANDED: Final = frozenset({"default", "fatlto-pre-link", "lto", "lto-pre-link", "thinlto", "thinlto-pre-link"})
"""The pipelines that `opt` prints in parts."""

_RESERVED: Final = frozenset({"passes", "extensions", "engine", "time_limit", "analysis", "params"})
"""Names that a parameter of `opt` cannot have here; they get an underscore at the end."""

_FILES: Final = frozenset({"profile-filename"})
"""The parameters that name files."""

_REACH: Final[Mapping[str, Outside]] = {
    "dot-": Outside.FILES,
    "view-": Outside.PROGRAMS,
    "insert-gcov-profiling": Outside.FILES,
}
"""What passes reach whose names begin so.

They write graphs to files, show them, or write notes to a file that metadata of the module name.
"""

_DOCS: Final[Mapping[str, str]] = {
    "module": "Run passes on a module.",
    "cgscc": "Run passes on each strongly connected component of the call graph.",
    "devirt": "Run passes on components again, at most `times` times, while calls become direct.",
    "function": "Run passes on each function.",
    "loop": "Run passes on each loop.",
    "loop-mssa": "Run passes on each loop, with MemorySSA.",
    "coro-cond": "Run passes if the module has coroutines.",
    "machine-function": "Run passes on each machine function.",
}

# Type checkers reject types that are made at run time.
_LITERAL: Final[Any] = Literal
_OPTIONAL: Final[Any] = Optional


def identifier_of(name: str) -> str:
    """Return the name of a parameter of `opt` as a name in Python."""
    key = name.replace("-", "_")
    return f"{key}_" if keyword.iskeyword(key) or key in _RESERVED else key


def _option(name: str, tp: Any, default: Any = None) -> inspect.Parameter:
    annotation = _OPTIONAL[tp] if default is None else tp
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _parameter_option(parameter: ParameterEntry) -> inspect.Parameter:
    """Return the option for a parameter; None is the default of `opt`."""
    kinds: dict[str, Any] = {"flag": bool, "switch": bool, "int": int, "str": str, "list": list[str]}
    tp = _LITERAL[parameter.choices] if parameter.kind == "level" else kinds[parameter.kind]
    option = _option(identifier_of(parameter.name), tp)
    return reviewed(option, {option.name: Outside.FILES if parameter.name in _FILES else None})


def _options_of(entry: PassEntry) -> list[inspect.Parameter]:
    options = [_parameter_option(parameter) for parameter in entry.parameters]
    if entry.analyses:
        names = tuple(dict.fromkeys(name for name, _ in entry.analyses))
        options.insert(0, _option("analysis", _LITERAL[names]))
    params = reviewed(_option("params", str, ""), {"params": Outside.UNKNOWN})
    return [*options, params, _option("time_limit", float, TIME_LIMIT)]


def parameters_text(entry: PassEntry, options: Mapping[str, Any]) -> str:
    """Return the parameters of a pass as `opt` reads them: `<max-iterations=2>`."""
    parameters = {identifier_of(parameter.name): parameter for parameter in entry.parameters}
    words: list[str] = []
    for key, value in options.items():
        parameter = parameters.get(key)
        if parameter is None or value is None:
            continue
        match parameter.kind:
            case "flag":
                words += [parameter.name] if value else []
            case "switch":
                words.append(parameter.name if value else f"no-{parameter.name}")
            case "level":
                words.append(value)
            case _:
                values = cast("list[object]", value) if isinstance(value, list) else [value]
                words += [f"{parameter.name}={item}" for item in values]
    if entry.name == "function-simplification" and not words:
        # It has no default of its own.
        words.append("O2")
    words += [options["params"]] if options.get("params") else []
    analysis = f"<{options['analysis']}>" if options.get("analysis") else ""
    text = ";".join(words)
    if set(text).intersection("(),"):
        raise PassDefinitionError(f"a parameter of {PREFIX}{entry.name} has one of '(),': {text!r}")
    return analysis + (f"<{text}>" if text else "")


def levels_of(entry: PassEntry, analysis: str | None) -> tuple[Level, ...]:
    """Return what a pass can run on, the outermost first."""
    levels = [level for name, level in entry.analyses if name == analysis]
    return tuple(level for level in LEVELS if level in (levels or entry.levels))


def managers_of(entry: PassEntry, level: Level) -> tuple[str, ...]:
    """Return the managers around a pass in a pipeline, the outermost first."""
    if level == "loop":
        return "function", entry.adaptor or "loop"
    known: dict[Level, tuple[str, ...]] = {"module": (), "cgscc": ("cgscc",), "function": ("function",)}
    return known.get(level, ("function", level))


def _opt_pass(opt: Opt, entry: PassEntry, info: PassInfo, options: Mapping[str, Any]) -> Pass[Module]:
    """Return the pass of `opt`."""
    limit = options.get("time_limit", TIME_LIMIT)
    analysis = options.get("analysis")
    if entry.analyses and analysis is None and entry.name in ("invalidate", "require"):
        raise PassDefinitionError(f"pass {info.name!r} needs an analysis, such as {entry.analyses[0][0]!r}")
    levels = levels_of(entry, analysis)
    element = Element(entry.name + parameters_text(entry, options), managers_of(entry, levels[0]), levels)
    if options.get("params"):
        # The list of passes does not have these parameters, but `opt` may.
        status, printed = OPT.output_of(opt.path, [f"-passes={element}", "-disable-output"], EMPTY)
        if status:
            raise PassDefinitionError(f"pass {info.name!r}: {printed.strip()}")
    pass_ = (OptPipeline if entry.name in _EXPANDED else OptPass)(opt, element, info, limit)
    pass_.outside = next((outside for start, outside in _REACH.items() if entry.name.startswith(start)), None)
    return pass_


def _provide(name: str, entry: PassEntry | None, library: LibraryEntry | None) -> None:
    """Register a pass that `opt` or llvmlite or both have."""
    info = PassInfo(0, f"{PREFIX}{name}")
    of_opt = [] if entry is None else _options_of(entry)
    known = {option.name for option in of_opt}
    of_library = () if library is None else library.options
    options = [*of_opt, *(option for option in of_library if option.name not in known), _option("engine", Engine)]

    def factory(*, engine: Engine | None = None, **values: Any) -> Pass[Module]:
        chosen = engine or default_engine()
        if chosen == "opt":
            opt = find_opt() or needed_opt()
            if entry is None:
                raise PassDefinitionError(f"opt has no pass {name!r}; write {info.name}{{engine=llvmlite}}")
            _check_options(values, known, of_library, "opt", info)
            return _opt_pass(opt, entry, info, values)
        if library is None:
            raise MissingExtraError(f"llvmlite has no pass {name!r}, or is not installed: pip install 'apass[llvm]'")
        _check_options(values, {option.name for option in of_library}, of_opt, "llvmlite", info)
        return library.make(info, **{key: value for key, value in values.items() if value is not None})

    doc = library.doc if library is not None and library.doc else f"Run the pass {name} of LLVM."
    provide_pass(info.name, options=options, doc=f"{doc}\n\n{_where(entry, library)}")(factory)
    if library is not None and library.class_name:
        add_alias(f"{PREFIX}{library.class_name}", info.name)


def _where(entry: PassEntry | None, library: LibraryEntry | None) -> str:
    if entry is None:
        return "It runs in llvmlite."
    return "It runs in opt." if library is None else "It runs in opt, or in llvmlite with `engine=llvmlite`."


def _check_options(
    values: Mapping[str, Any], known: set[str], others: Sequence[inspect.Parameter], engine: str, info: PassInfo
) -> None:
    for key, value in values.items():
        if key not in known and value is not None and any(option.name == key for option in others):
            other = "llvmlite" if engine == "opt" else "opt"
            raise PassDefinitionError(f"option {key!r} of {info.name} needs engine={other}, it runs in {engine}")


def _provide_manager(name: str) -> None:
    info = PassInfo(0, f"{PREFIX}{name}")
    level, around, flags = MANAGERS[name]
    options = [_option(identifier_of(flag), bool, default=False) for flag in flags]
    options += [_option("times", int)] if name == "devirt" else []
    passes = inspect.Parameter("passes", inspect.Parameter.KEYWORD_ONLY, annotation=list[Pass[Any]])

    def factory(*, passes: Sequence[Pass[Any]], times: int = 4, **values: bool) -> Pass[Module]:
        words = [str(times)] if name == "devirt" else [flag for flag in flags if values.get(identifier_of(flag))]
        element = Element(f"{name}<{';'.join(words)}>" if words else name, around, (level,))
        opt = find_opt()
        if opt is None:
            raise MissingExtraError(f"{info.name} needs the program opt, and {OPT.variable} chooses llvmlite; unset it")
        return OptManager(opt, element, info, passes, in_order=name in _DIVISIBLE)

    provide_pass(info.name, options=[passes, *options], doc=_DOCS[name])(factory)


def _register_all() -> None:
    opt = find_opt()
    library = library_passes()
    entries = {} if opt is None else {entry.name: entry for entry in opt.catalogue.passes}
    if not entries and not library:
        default_engine()
    for name in sorted({*entries, *library}):
        _provide(name, entries.get(name), library.get(name))
    if opt is not None:
        for name in MANAGERS:
            _provide_manager(name)
    for level in PIPELINES:
        add_alias(f"{PREFIX}{level}", f"{PREFIX}default", level=level)
    add_alias(f"{PREFIX}Default", f"{PREFIX}default")


_register_all()
