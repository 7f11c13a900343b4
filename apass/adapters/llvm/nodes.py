"""The `Node` values of LLVM functions, and artificial debug locations.

Nothing here calls LLVM: the instructions are read from the text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from apass.adapters.llvm.module import Function, Module
from apass.adapters.llvm.skeleton import TOKEN
from apass.adapters.nodes import Node

__all__ = ["function_nodes", "with_debug_locations"]

_RESULT: Final = re.compile(r'^(%(?:"[^"]*"|[-A-Za-z0-9$._]+)) = ')
_METADATA: Final = re.compile(r", ![a-zA-Z_.]+ ![0-9]+")
_DEBUG: Final = re.compile(r"!dbg (![0-9]+)")
_WORD: Final = re.compile(r"[a-z_]+")
_FIELD: Final = re.compile(r"\b(line|column|scope|filename|file): ([^,)]+)")
_PREFIXES: Final = frozenset({"tail", "musttail", "notail"})


def function_nodes(func: Function) -> Iterator[Node]:
    """Iterate over the instructions of a function.

    An instruction whose result has a name has that name. One whose result LLVM has numbered has the number, and any
    other one its opcode and a number: `store#0`.
    """
    texts = list(_instructions(func.definition))
    lines = [_METADATA.sub("", text) for text in texts]
    results = {found[1] for line in lines if (found := _RESULT.match(line))}
    numbers: Counter[str] = Counter()

    def unnumbered(match: re.Match[str]) -> str:
        # The numbers of values change with the instructions before them, those of attributes with other functions.
        token = match[0]
        if token[0] == "#":
            return (func.find(token) or token).partition(" = ")[2]
        return "%" if _is_numbered(token) else token

    for text, line in zip(texts, lines, strict=True):
        found = _RESULT.match(line)
        result = "" if found is None else found[1]
        body = line[len(found[0]) :] if found else line
        opcode = next((word for word in _WORD.findall(body) if word not in _PREFIXES), "?")
        debug = _DEBUG.search(text)
        name = result or f"{opcode}#{numbers[opcode]}"
        numbers[opcode] += not result
        yield Node(
            name=name,
            text=TOKEN.sub(unnumbered, body),
            # Blocks have numbers too.
            operands=tuple(token for token in TOKEN.findall(body) if _is_numbered(token) and token in results),
            results=(result,) if result else (),
            location="" if debug is None else _location(debug[1], func),
            is_named=bool(result) and not _is_numbered(result),
            display=line,
        )


def _instructions(definition: str) -> Iterator[str]:
    """Iterate over the instructions of a definition, each as one line."""
    lines = definition.splitlines()
    for first, last in _ranges(lines):
        yield " ".join(line.strip() for line in lines[first : last + 1])


def _is_numbered(token: str) -> bool:
    return token[0] == "%" and token[1:].isdigit()


def _location(token: str, func: Function) -> str:
    """Return file, line and column of a `DILocation`."""
    fields = _fields(func.find(token))
    file, scope = "", fields.get("scope")
    # Scopes are nested, and the outermost ones have the file. Invalid metadata may contain cycles.
    for _ in range(64):
        if scope is None or file:
            break
        outer = _fields(func.find(scope))
        if "file" in outer:
            file = _fields(func.find(outer["file"])).get("filename", "").strip('"')
        scope = outer.get("scope")
    return f"{file}:{fields.get('line', '0')}:{fields.get('column', '0')}"


def _fields(line: str | None) -> Mapping[str, str]:
    return dict(_FIELD.findall(line or ""))


def with_debug_locations(mod: Module) -> Module:
    """Return a module in which each instruction has a line of its own.

    It is as after LLVM's debugify. A module with debug information is returned as it is: its instructions without a
    location have none on purpose.
    """
    skeleton = mod.skeleton
    if skeleton.has_debug_info:
        return mod
    number = skeleton.free_node
    unit, file, kind, types, dwarf, version = (f"!{number + index}" for index in range(6))
    added = {
        unit: f'distinct !DICompileUnit(language: DW_LANG_C, file: {file}, producer: "apass", isOptimized: true, '
        "runtimeVersion: 0, emissionKind: FullDebug)",
        file: '!DIFile(filename: "apass", directory: "/")',
        kind: f"!DISubroutineType(types: {types})",
        types: "!{}",
        dwarf: '!{i32 7, !"Dwarf Version", i32 4}',
        version: '!{i32 2, !"Debug Info Version", i32 3}',
    }
    number += len(added)
    line = 0
    definitions: dict[str, str] = {}
    headers: dict[str, str] = {}
    for func in mod.functions.values():
        scope, number = f"!{number}", number + 1
        line += 1
        added[scope] = (
            f'distinct !DISubprogram(name: "apass.{scope[1:]}", scope: null, file: {file}, line: {line}, type: {kind}, '
            f"scopeLine: {line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: {unit})"
        )
        lines = func.definition.splitlines()
        lines[0] = f"{lines[0].removesuffix(' {')} !dbg {scope} {{"
        for _, index in list(_ranges(lines)):
            line += 1
            location, number = f"!{number}", number + 1
            added[location] = f"!DILocation(line: {line}, column: 1, scope: {scope})"
            lines[index] += f", !dbg {location}"
        definitions[func.token] = "\n".join(lines) + "\n"
        headers[func.token] = lines[0]
    named = dict(skeleton.named)
    named["!llvm.dbg.cu"] = f"!llvm.dbg.cu = !{{{unit}}}"
    flags = [version] if "Dwarf Version" in "".join(skeleton.nodes.values()) else [dwarf, version]
    old = named.get("!llvm.module.flags", "!llvm.module.flags = !{}")
    inner = ", ".join(filter(None, [old.partition("{")[2].rstrip("}"), *flags]))
    named["!llvm.module.flags"] = f"!llvm.module.flags = !{{{inner}}}"
    entries = {token: f"{token} = {text}" for token, text in added.items()}
    located = skeleton.with_entries(entries, headers).replaced(named=named)
    return Module.parse(located.text(definitions))


def _ranges(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Iterate over the first and the last line of each instruction.

    The cases of a `switch` and the clauses of a `landingpad` have lines of their own.
    """
    first = last = 0
    for index, line in enumerate(lines):
        # Debug records are no instructions.
        if index and line.startswith("  ") and not line.lstrip().startswith("#dbg_"):
            if line[2:3] not in (" ", "]"):
                if first:
                    yield first, last
                first = index
            last = index
    if first:
        yield first, last
