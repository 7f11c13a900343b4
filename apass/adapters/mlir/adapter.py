"""`MLIRAdapter`: the adapter for MLIR modules.

The functions of a module are its top-level operations `*.func` that have a symbol and a body.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Final

from apass.adapters.mlir.module import BYTECODE, MLIRFunction, MLIRModule, indentation_of, indented, print_arguments
from apass.adapters.mlir.nodes import function_nodes, with_file_locations
from apass.adapters.mlir.reductions import shrinkings
from apass.adapters.mlir.structure import Operation, declaration
from apass.adapters.nodes import Node
from apass.adapters.programs import MLIR_OPT, Request, failure, run_now
from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, VerifyError
from apass.util.delta_debugging import Shrinking

__all__ = ["ADAPTER", "MLIRAdapter", "module_from_bytes", "module_to_bytecode", "module_to_text", "with_declarations"]


class MLIRAdapter:
    """An IRAdapter for `MLIRModule`.

    Modules are texts, and so are functions. `mlir-opt` is needed only to verify, to reduce, and to read bytecode.
    """

    thread_safe: bool = True
    """True: modules are immutable."""
    suffix: str = ".mlir"
    """The suffix of a file with the bytes that `dumps` returns: the text."""

    def functions(self, mod: MLIRModule) -> Iterator[tuple[str, MLIRFunction]]:
        """Iterate over the functions that have a body."""
        yield from mod.functions.items()

    def get(self, mod: MLIRModule, name: str) -> MLIRFunction:
        """Return the function of that symbol."""
        return mod.functions[name]

    def kind(self, func: MLIRFunction) -> FunctionKind:
        """Return `"function"`, the only kind in MLIR."""
        return "function"

    def replace(self, mod: MLIRModule, updates: Mapping[str, MLIRFunction]) -> MLIRModule:
        """Return a module with the texts of other functions.

        Raises:
            AdapterError: if an update has another symbol than the function it replaces.

        """
        for name, func in updates.items():
            if func.name != name:
                raise AdapterError(f"the update of function {name!r} is named {func.name!r}; keep the name")
        changed = {name: func for name, func in updates.items() if mod.functions.get(name) != func}
        if not changed:
            return mod
        return mod.with_parts(
            tuple(
                _with_text(part, changed[part.symbol].text) if part.symbol in changed else part
                for part in mod.structure.parts
            )
        )

    def skips(self, func: MLIRFunction) -> bool:
        """Return whether the function has a true attribute `SkipOptimization`."""
        return func.is_skipped

    def fingerprint(self, x: MLIRModule | MLIRFunction) -> str:
        """Return a digest of the text."""
        return blake2b(x.text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def equal(self, a: MLIRModule | MLIRFunction, b: MLIRModule | MLIRFunction) -> bool:
        """Return whether the texts are equal."""
        return a is b or (type(a) is type(b) and a.text == b.text)

    def to_text(self, x: MLIRModule | MLIRFunction) -> str:
        """Return the text."""
        return x.text

    def text_parts(self, mod: MLIRModule, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text outside of functions, and that of each named function."""
        parts = (part.text for part in mod.structure.parts if part.symbol is None and part.name)
        outside = "\n".join([mod.structure.head, *parts, mod.structure.tail])
        return outside, {name: mod.functions[name].text for name in names}

    def verify(self, mod: MLIRModule) -> None:
        """Parse and verify the module with `mlir-opt`.

        Raises:
            VerifyError: if the module is invalid.
            MissingExtraError: if there is no `mlir-opt`.

        """
        request = Request(MLIR_OPT.find(), (), ADAPTER.dumps(mod))
        answer = run_now(request)
        if answer.status:
            raise VerifyError(f"not a valid MLIR module: {failure(answer, request, mod.source)}")

    def dumps(self, mod: MLIRModule) -> bytes:
        """Return the text in UTF-8."""
        return mod.text.encode("utf-8", "surrogatepass")

    def loads(self, data: bytes) -> MLIRModule:
        """Return the module with a text, or the module in MLIR bytecode.

        Raises:
            AdapterError: if the data is neither.

        """
        return module_from_bytes(data)

    def isolate(self, mod: MLIRModule, names: Iterable[str]) -> MLIRModule:
        """Return a module with the named functions, in which the others are declarations."""
        chosen = frozenset(names)
        unknown = chosen - mod.functions.keys()
        if unknown:
            raise KeyError(min(unknown))
        return with_declarations(mod, chosen)

    def extract(self, sub: MLIRModule, names: Iterable[str]) -> Mapping[str, MLIRFunction]:
        """Return the named functions."""
        return {name: sub.functions[name] for name in names}

    def commit(self, sub: MLIRModule) -> MLIRModule:
        """Return an equal module."""
        return MLIRModule(sub.text, sub.source)

    def nodes(self, func: MLIRFunction) -> Iterator[Node]:
        """Iterate over the operations inside of a function."""
        return function_nodes(func)

    def with_locations(self, mod: MLIRModule) -> MLIRModule:
        """Return a module in which each operation has a location.

        Raises:
            AdapterError: if the module is invalid.
            MissingExtraError: if there is no `mlir-opt`.

        """
        return with_file_locations(mod)

    def with_names(self, mod: MLIRModule) -> MLIRModule:
        """Return a module whose locations contain the names of results, which passes keep.

        It has the same errors as `with_locations`.
        """
        return with_file_locations(mod, has_names=True)

    def shrinkings(self, mod: MLIRModule) -> Iterator[Shrinking[MLIRModule]]:
        """Iterate over the parts that can be removed: functions, bodies, and operations."""
        yield from shrinkings(mod)


def with_declarations(mod: MLIRModule, chosen: frozenset[str]) -> MLIRModule:
    """Return a module in which the functions outside of `chosen` are declarations.

    Functions of other dialects than `func` are left out, because their declarations differ. Lines keep their numbers.
    """
    parts: list[Operation] = []
    for part in mod.structure.parts:
        if part.symbol is None or part.symbol in chosen:
            parts.append(part)
        else:
            text = declaration(part) if part.name == "func.func" else ""
            parts.append(Operation(text + "\n" * (part.text.count("\n") - text.count("\n")), text and part.name))
    return MLIRModule(mod.with_parts(tuple(parts)).text, mod.source)


def module_from_bytes(data: bytes, source: str = "") -> MLIRModule:
    """Return the module with a text, or the module in MLIR bytecode.

    Parameters:
        data: the contents of a file.
        source: its name, for messages.

    Raises:
        AdapterError: if the data is neither.
        MissingExtraError: if the data is bytecode and there is no `mlir-opt`.

    """
    if data.startswith(BYTECODE):
        # In local scope, the data of resources would be lost.
        data = _converted(data, (), source or "MLIR bytecode")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise AdapterError(f"{source or 'the data'} is neither MLIR text in UTF-8 nor MLIR bytecode: {error}") from None
    return MLIRModule(text, source)


def module_to_text(mod: MLIRModule) -> bytes:
    """Return the text that `mlir-opt` prints for a module, without its comments.

    Raises:
        AdapterError: if the module is invalid.
        MissingExtraError: if there is no `mlir-opt`.

    """
    if mod.printed is not None:
        return mod.printed.encode("utf-8", "surrogatepass")
    return _converted(ADAPTER.dumps(mod), print_arguments(mod), mod.source)


def module_to_bytecode(mod: MLIRModule) -> bytes:
    """Return a module as MLIR bytecode.

    Raises:
        AdapterError: if the module is invalid.
        MissingExtraError: if there is no `mlir-opt`.

    """
    return _converted(ADAPTER.dumps(mod), ("--emit-bytecode",), mod.source)


def _converted(data: bytes, arguments: tuple[str, ...], source: str) -> bytes:
    request = Request(MLIR_OPT.find(), arguments, data)
    answer = run_now(request)
    if answer.status:
        raise failure(answer, request, source)
    return answer.data


def _with_text(part: Operation, text: str) -> Operation:
    return Operation(indented(text, indentation_of(part.text)), part.name, part.symbol)


ADAPTER: Final = MLIRAdapter()
"""The shared adapter; it has no state."""
