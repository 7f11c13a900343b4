"""The adapter for modules of LLVM IR (`apass.adapters.llvm.Module`).

The functions of a module are those with a body.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

from apass.adapters.llvm.library import HAS_LLVMLITE, check, parse
from apass.adapters.llvm.module import Function, Module
from apass.adapters.llvm.nodes import function_nodes, with_debug_locations
from apass.adapters.llvm.opt import find_opt, printed_by_opt
from apass.adapters.llvm.reading import load_module, save_bitcode, save_text
from apass.adapters.llvm.reductions import shrinkings
from apass.adapters.llvm.skeleton import rename
from apass.adapters.nodes import Node
from apass.adapters.programs import OPT
from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, VerifyError
from apass.util.delta_debugging import Shrinking

__all__ = ["ADAPTER", "Function", "LLVMAdapter", "Module", "load_module", "save_bitcode", "save_text"]

_OPTNONE: Final = re.compile(r'(?<![\w"=-])optnone(?![\w"-])')

SMALL: Final = 2**16
"""Maximum size in characters of a module for which each method takes a few milliseconds."""

_OUTSIDE: Final = "; apass: changed outside of functions: "
"""The line before a module whose functions were changed together with something else."""


class LLVMAdapter:
    """An IRAdapter for modules of LLVM IR.

    Functions are definitions. A function pass receives a `Function`, and returns the same object or another one, made
    with `Function.with_definition`.
    """

    thread_safe: bool = True
    """True: modules are immutable, and llvmlite has a lock."""
    suffix: str = ".ll"
    """The suffix of a file with the bytes that `dumps` returns: text."""

    def is_small(self, mod: Module) -> bool:
        """Return whether the module has less than 64 KiB of text."""
        size = 0
        for text in mod.definitions.values():
            size += len(text)
            if size > SMALL:
                return False
        return size + sum(map(len, mod.skeleton.variables.values())) <= SMALL

    def functions(self, mod: Module) -> Iterator[tuple[str, Function]]:
        """Iterate over the functions with bodies."""
        yield from mod.functions.items()

    def select(self, mod: Module, kind: FunctionKind) -> tuple[list[str], list[Function]]:
        """Return the names and functions that are not skipped, if `kind` is `"function"`."""
        if kind != "function":
            return [], []
        chosen = [(name, func) for name, func in mod.functions.items() if not self.skips(func)]
        return [name for name, _ in chosen], [func for _, func in chosen]

    def get(self, mod: Module, name: str) -> Function:
        """Return the function of a name."""
        return mod.functions[name]

    def kind(self, func: Function) -> FunctionKind:
        """Return `"function"`, the only kind in LLVM."""
        return "function"

    def skips(self, func: Function) -> bool:
        """Return whether the function has `optnone`, or a true `"SkipOptimization"`.

        The second attribute is true unless its value is empty, `"0"`, `"false"`, `"no"` or `"off"`.
        """
        return func.is_marked or _OPTNONE.search(func.groups) is not None

    def replace(self, mod: Module, updates: Mapping[str, Function]) -> Module:
        """Return a module with `updates`, and with what they use and it lacks.

        Raises:
            AdapterError: if an update has another name than the function it replaces.

        """
        return mod.with_functions(updates)

    def fingerprint(self, x: Module | Function) -> str:
        """Return a digest of the text."""
        return x.digest if isinstance(x, Module) else _digest(x.text)

    def exact_fingerprint(self, x: Module | Function) -> str:
        """Return a digest of the text; that of a function includes what it uses."""
        if isinstance(x, Module):
            return x.digest
        return _digest("\n".join([x.skeleton.head, x.text, *sorted(_symbols(x))]))

    def equal(self, a: Module | Function, b: Module | Function) -> bool:
        """Return whether the texts are equal."""
        if isinstance(a, Module) and isinstance(b, Module):
            return a is b or a.comparable == b.comparable
        return a is b or (type(a) is type(b) and a.text == b.text)

    def to_text(self, x: Module | Function) -> str:
        """Return the text as LLVM prints it.

        That of a function ends with its attribute groups and metadata, numbered from 0.
        """
        return x.text

    def text_parts(self, mod: Module, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text outside of functions, and that of each named function."""
        skeleton = mod.skeleton
        tables = (skeleton.types, skeleton.comdats, skeleton.variables, skeleton.functions, skeleton.named)
        lines = [skeleton.head, *(line for table in tables for line in table.values())]
        return "\n".join(lines) + "\n", {name: mod.functions[name].text for name in names}

    def verify(self, mod: Module) -> None:
        """Check the module with LLVM's verifier.

        Raises:
            VerifyError: if the module is invalid.

        """
        opt = find_opt()
        try:
            if not HAS_LLVMLITE or (opt is not None and not mod.is_printed):
                # It may crash on the contents of a file.
                printed_by_opt(OPT.find() if opt is None else opt.path, mod.data, mod.source)
                return
            ref = parse(mod.raw_text, verified=False)
        except AdapterError as error:
            raise VerifyError(str(error)) from None
        check(ref)

    def dumps(self, mod: Module) -> bytes:
        """Return the text of the module.

        It keeps the numbers of metadata, which identify nodes. Bitcode would not.
        """
        note = f"{_OUTSIDE}{json.dumps(dict(mod.outside))}\n" if mod.outside else ""
        return (note + mod.saved_text).encode("utf-8", "surrogatepass")

    def loads(self, data: bytes) -> Module:
        """Return the module that `dumps` wrote. LLVM reads it when its text is needed.

        Raises:
            AdapterError: if `data` is no such text.

        """
        try:
            text = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise AdapterError(f"the bytes of an LLVM module are no text: {error}") from None
        outside: dict[str, dict[str, str]] = {}
        if text.startswith(_OUTSIDE):
            line, _, text = text.partition("\n")
            try:
                outside = json.loads(line.removeprefix(_OUTSIDE))
            except ValueError as error:
                raise AdapterError(f"the first line of an LLVM module cannot be read: {error}") from None
        return Module.restored(text, outside)

    def isolate(self, mod: Module, names: Iterable[str]) -> Module:
        """Return a module with the named functions and what they use.

        The other functions have no body. Modules are immutable, so nothing is copied.
        """
        return mod.private(names)

    def commit(self, sub: Module) -> Module:
        """Return `sub`: modules are immutable."""
        return sub

    def extract(self, sub: Module, names: Iterable[str]) -> Mapping[str, Function]:
        """Return the named functions."""
        return {name: sub.functions[name] for name in names}

    def nodes(self, func: Function) -> Iterator[Node]:
        """Iterate over the instructions.

        They are named after their results: `%x`, or `%3` if LLVM has numbered it. An instruction without a result has
        its opcode and a number: `store#0`. A location is that of the debug information.
        """
        return function_nodes(func)

    def with_locations(self, mod: Module) -> Module:
        """Return a module in which each instruction has a debug location.

        It is as after LLVM's debugify. A module with debug information is returned as it is.
        """
        return with_debug_locations(mod)

    def shrinkings(self, mod: Module) -> Iterator[Shrinking[Module]]:
        """Iterate over the parts that can be removed (see `reductions`)."""
        yield from shrinkings(mod)


def _symbols(func: Function) -> Iterator[str]:
    """Iterate over the lines of the symbols and types that a function uses."""
    # The numbers of a module are arbitrary.
    names = {
        token: line.partition(" = ")[2] if token[0] == "#" else "!"
        for token, line in func.entries.items()
        if token[0] in "#!"
    }
    return (rename(line, names) for token, line in func.entries.items() if token[0] not in "#!")


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


ADAPTER: Final = LLVMAdapter()
"""The shared adapter; it has no state."""
