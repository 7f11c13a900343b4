"""`MLIRModule`: the text of an MLIR module, as an immutable value."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from apass.adapters.mlir.structure import Operation, Structure, parse_structure

__all__ = [
    "BYTECODE",
    "LOCAL_SCOPE",
    "SKIP",
    "MLIRFunction",
    "MLIRModule",
    "indentation_of",
    "indented",
    "print_arguments",
]

BYTECODE: Final = b"ML\xefR"
"""The first bytes of MLIR bytecode."""

LOCAL_SCOPE: Final = "--mlir-print-local-scope"
"""The argument that prints maps and types where they are used, so that the text of a function needs no other.

The metadata of a file are not printed then.
"""

SKIP: Final = "SkipOptimization"
"""The attribute of functions that passes leave alone."""

_LOCATION: Final = re.compile(
    r"""^(?:[^"/\n]|"(?:[^"\\\n]|\\.)*"|/(?!/))*?\bloc\((?:["#]|unknown\b|callsite\b|fused\b)""", re.MULTILINE
)
"""A location that is in no comment and no string."""
_LOCATION_ALIAS: Final = re.compile(r"^#loc\d* *=", re.MULTILINE)
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_MARK: Final = re.compile(r'[{,]\s*"?SkipOptimization"?\s*(?:=\s*([\w.]+)[^,}]*)?[,}]')


@dataclass(frozen=True, slots=True)
class MLIRFunction:
    r"""A function of an `MLIRModule`.

    It is an operation `*.func` that has a symbol and a body.

    >>> MLIRModule("func.func @f() {\n  return\n}").functions["f"].text
    'func.func @f() {\n  return\n}'
    """

    name: str
    """The symbol, without the `@`."""
    text: str
    """The text of the operation."""
    body: int = field(default=0, compare=False, repr=False)
    """The offset in `text` of the brace at which the body begins."""
    definitions: str = field(default="", compare=False, repr=False)
    """The aliases of the module, which the text may use."""

    @property
    def is_skipped(self) -> bool:
        """Whether the function has a true attribute `SkipOptimization`."""
        head = self.text[: self.body]
        if SKIP not in head:
            return False
        # Other strings, such as values, mark nothing.
        mark = _MARK.search(_STRING.sub(lambda match: match[0] if match[0] == f'"{SKIP}"' else "", head))
        return mark is not None and (mark[1] or "true") not in ("false", "0")


@dataclass(frozen=True)
class MLIRModule:
    r"""The text of an MLIR module.

    It may be in the custom or the generic form, with or without `module { ... }`. Its text is parsed by `mlir-opt` when
    a pass runs, so an invalid text is reported by the first pass, and by `apass opt --verify`.

    >>> module = MLIRModule("module {\n  func.func @f() {\n    return\n  }\n}\n")
    >>> list(module.functions)
    ['f']
    """

    text: str
    """The text."""
    source: str = field(default="", compare=False, repr=False)
    """The file that the text was read from, for messages; empty if there is none."""

    is_printed: bool = field(default=False, compare=False, repr=False)
    """Whether `mlir-opt` printed the text, so that equal programs have equal texts."""

    bytecode: bytes = field(default=b"", compare=False, repr=False)
    """The module in MLIR bytecode, if a pass returned it.

    The next pass reads it. `mlir-opt` cannot read everything that it prints, such as `bind()` of an `acc.routine`.
    """

    @property
    def data(self) -> bytes:
        """What `mlir-opt` reads: the bytecode, or else the text in UTF-8."""
        return self.bytecode or self.text.encode("utf-8", "surrogatepass")

    @property
    def printed(self) -> str | None:
        """The text that `mlir-opt` prints for the module; None if it is not known."""
        known: str | None = vars(self).get("_printed")
        return self.text if self.is_printed else known

    def keep_printed(self, text: str) -> None:
        """Note the text that `mlir-opt` has printed for the module."""
        vars(self)["_printed"] = text

    @cached_property
    def structure(self) -> Structure:
        """The top-level operations."""
        return parse_structure(self.text)

    @cached_property
    def functions(self) -> dict[str, MLIRFunction]:
        """The functions that have a body, by symbol.

        It is empty if the operations of the text cannot be separated with certainty, as in generic form.
        """
        definitions = "".join(self.structure.definitions())
        return {name: _function(name, part, definitions) for name, part in self.structure.functions.items()}

    @cached_property
    def has_locations(self) -> bool:
        """Whether the text contains locations, which passes then keep."""
        # Most texts have none, and the search for a plain text is much faster.
        return "loc(" in self.text and _LOCATION.search(self.text) is not None

    @cached_property
    def has_metadata(self) -> bool:
        """Whether the text may have metadata of a file, such as the data of resources."""
        return "{-#" in self.text

    def with_parts(self, parts: tuple[Operation, ...]) -> "MLIRModule":
        """Return a module with other operations."""
        return MLIRModule(Structure(self.structure.head, parts, self.structure.tail).text())

    def __getstate__(self) -> tuple[str, str, bool, bytes]:
        return self.text, self.source, self.is_printed, self.bytecode

    def __setstate__(self, state: tuple[str, str, bool, bytes]) -> None:
        for name, value in zip(("text", "source", "is_printed", "bytecode"), state, strict=True):
            object.__setattr__(self, name, value)


def _function(name: str, part: Operation, definitions: str) -> MLIRFunction:
    """Return a function whose text is not indented."""
    indentation = indentation_of(part.text)
    head, body = (dedented(text, indentation) for text in (part.text[: part.body], part.text[part.body :]))
    return MLIRFunction(name, head + body, len(head), definitions)


def indentation_of(text: str) -> str:
    """Return the spaces before the first character of an operation."""
    return text[: len(text) - len(text.lstrip())]


def dedented(text: str, indentation: str) -> str:
    """Return the text without the indentation of its lines."""
    return text.removeprefix(indentation).replace(f"\n{indentation}", "\n")


def indented(text: str, indentation: str) -> str:
    """Return the text with its lines indented."""
    return "".join(indentation + line if line.strip() else line for line in text.splitlines(keepends=True))


def print_arguments(mod: MLIRModule) -> tuple[str, ...]:
    """Return the arguments that print a module with its locations and metadata.

    If `mlir-opt` printed the module in local scope, so does the next pass.
    """
    if mod.has_locations:
        is_local = mod.is_printed and not mod.has_metadata and _LOCATION_ALIAS.search(mod.text) is None
        return ("--mlir-print-debuginfo", LOCAL_SCOPE) if is_local else ("--mlir-print-debuginfo",)
    return () if mod.has_metadata else (LOCAL_SCOPE,)
