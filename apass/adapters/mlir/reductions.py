"""Parts of an MLIR module that `reduce` can remove."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from apass.adapters.mlir.module import MLIRModule, print_arguments
from apass.adapters.mlir.structure import Operation, declaration
from apass.adapters.programs import MLIR_OPT, Request, failure, run_now
from apass.errors import ApassError
from apass.util.delta_debugging import Shrinking

__all__ = ["shrinkings"]

_PLACEHOLDER: Final = '"builtin.unrealized_conversion_cast"()'
"""An operation without operands that may have results of any type; passes leave it alone."""

_OPERATION: Final = re.compile(r'^(?P<indent> *)(?:(?P<results>%[^=]*?) = )?"(?P<name>[^"]+)"')
_VALUE: Final = re.compile(r"%[\w$.-]+")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|->|[(){}\[\]]| : (?=\()')
_DEPTH: Final = {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}


def shrinkings(mod: MLIRModule) -> Iterator[Shrinking[MLIRModule]]:
    """Iterate over the kinds of removable parts.

    - Top-level operations.
    - Bodies of functions, which become declarations.
    - Operations in functions, if `mlir-opt` can parse the module. A result that other operations use becomes that of a
      `builtin.unrealized_conversion_cast` without operands.
    """
    parts = mod.structure.parts
    operations = [index for index, part in enumerate(parts) if part.name and part.name != "text"]
    bodies = [index for index, part in enumerate(parts) if part.symbol is not None and part.name == "func.func"]

    def without_operations(removed: frozenset[int]) -> MLIRModule:
        gone = {operations[number] for number in removed}
        gone |= {index + 1 for index in gone if index + 1 < len(parts) and parts[index + 1].text.isspace()}
        return mod.with_parts(tuple(part for index, part in enumerate(parts) if index not in gone))

    def without_bodies(removed: frozenset[int]) -> MLIRModule:
        gone = {bodies[number] for number in removed}
        kept = [Operation(declaration(part), part.name) if index in gone else part for index, part in enumerate(parts)]
        return mod.with_parts(tuple(kept))

    for what, indices, without in (
        ("operations of the module", operations, without_operations),
        ("bodies of functions", bodies, without_bodies),
    ):
        yield Shrinking(what, len(indices), _identity_of_nothing(mod, without))
    try:
        lines = _converted(mod, ("--mlir-print-op-generic", *print_arguments(mod))).text.splitlines()
    except ApassError:
        # Without `mlir-opt`, or for a text that it cannot parse, the parts above must do.
        return
    inner = _removable(lines)
    yield Shrinking(
        "operations in functions", len(inner), _identity_of_nothing(mod, partial(_without_inner, lines, inner))
    )


def _identity_of_nothing(
    mod: MLIRModule, without: Callable[[frozenset[int]], MLIRModule]
) -> Callable[[frozenset[int]], MLIRModule]:
    """Return a function that returns the module itself if nothing is removed."""
    return lambda removed: without(removed) if removed else mod


def _converted(mod: MLIRModule, arguments: tuple[str, ...]) -> MLIRModule:
    """Return a module as `mlir-opt` prints it.

    Raises:
        AdapterError: if the module is invalid.

    """
    request = Request(MLIR_OPT.find(), arguments, mod.text.encode("utf-8", "surrogatepass"))
    answer = run_now(request)
    if answer.status:
        raise failure(answer, request, mod.source)
    return MLIRModule(answer.data.decode())


@dataclass(frozen=True, slots=True)
class _Inner:
    """An operation in a function, in generic form."""

    first: int
    """The index of its first line."""
    last: int
    """The index of its last line."""
    indent: str
    """Its indentation."""
    results: str
    """The values that it defines, such as `%0:2`; empty if there are none."""
    types: str
    """The types of the results."""


def _removable(lines: list[str]) -> list[_Inner]:
    """Return the operations in functions, without terminators and used placeholders."""
    found: list[_Inner] = []
    for first, line in enumerate(lines):
        match = _OPERATION.match(line)
        # Operations of the module have two spaces.
        if match is None or len(match["indent"]) < 4:
            continue
        last = _last_line(lines, first, match["indent"])
        following = lines[last + 1].lstrip() if last + 1 < len(lines) else ""
        if match["results"] is None and following[:1] in ("}", "^", ""):
            continue
        types = _result_types("\n".join(lines[first : last + 1]))
        if types is not None:
            inner = _Inner(first, last, match["indent"], match["results"] or "", types)
            if _PLACEHOLDER not in line or not _used(lines, [inner])[0]:
                found.append(inner)
    return found


def _last_line(lines: list[str], first: int, indent: str) -> int:
    """Return the last line of an operation, which is after its regions."""
    last = first
    while lines[last].endswith("({"):
        last = next(index for index in range(last + 1, len(lines)) if lines[index].startswith(f"{indent}}}"))
    return last


def _result_types(text: str) -> str | None:
    """Return the text of the result types of an operation, or None."""
    depth = 0
    is_type = False
    for match in _TOKEN.finditer(text):
        token = match.group()
        depth += _DEPTH.get(token, 0)
        if depth == 0 and token == " : ":
            is_type = True
        elif depth == 0 and token == "->" and is_type:
            return text[match.end() :].strip()
    return None


def _used(lines: list[str], removed: list[_Inner]) -> list[bool]:
    """Return for each removed operation whether its function uses a result."""
    gone = {index for inner in removed for index in range(inner.first, inner.last + 1)}
    users: dict[int, set[str]] = {}
    function, owner = -1, list[int]()
    for index, line in enumerate(lines):
        if line.startswith('  "'):
            function = index
        owner.append(function)
        if index not in gone:
            text = line.partition(" = ")[2] if _OPERATION.match(line) and " = " in line.partition('"')[0] else line
            users.setdefault(function, set()).update(_VALUE.findall(text))
    return [not users.get(owner[inner.first], set()).isdisjoint(_VALUE.findall(inner.results)) for inner in removed]


def _without_inner(lines: list[str], inner: list[_Inner], removed: frozenset[int]) -> MLIRModule:
    """Return the module without some operations.

    Raises:
        AdapterError: if the remaining module is invalid.

    """
    chosen = [inner[number] for number in sorted(removed)]
    placeholders = {
        operation.first: f"{operation.indent}{operation.results} = {_PLACEHOLDER} : () -> {operation.types}"
        for operation, is_used in zip(chosen, _used(lines, chosen), strict=True)
        if is_used
    }
    gone = {index for operation in chosen for index in range(operation.first, operation.last + 1)}
    # A removed operation may be inside of another one.
    outer = {index for operation in chosen for index in range(operation.first + 1, operation.last + 1)}
    remaining = [
        placeholders[index] if index in placeholders and index not in outer else line
        for index, line in enumerate(lines)
        if index not in gone or (index in placeholders and index not in outer)
    ]
    mod = MLIRModule("\n".join(remaining))
    return _converted(mod, print_arguments(mod))
