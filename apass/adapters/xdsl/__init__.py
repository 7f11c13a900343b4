"""The adapter for MLIR modules of xDSL (`xdsl.dialects.builtin.ModuleOp`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from apass.adapters.nodes import Node
from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, MissingExtraError
from apass.util.delta_debugging import Shrinking

try:
    from xdsl.dialects.builtin import IntegerAttr, ModuleOp
    from xdsl.ir import Operation
except ImportError as _error:
    raise MissingExtraError(f"MLIR modules need xDSL ({_error}): pip install 'apass[xdsl]'") from _error

from apass.adapters.xdsl.module_fingerprint import fingerprint
from apass.adapters.xdsl.nodes import function_nodes, with_file_locations
from apass.adapters.xdsl.reductions import shrinkings
from apass.adapters.xdsl.symbols import function_name, functions_of, is_function, module_of, move_contents, symbol_of
from apass.adapters.xdsl.symbols import with_functions as _with_functions
from apass.adapters.xdsl.text import parse_module, print_operation, to_bytes, verify_module

__all__ = ["ADAPTER", "ModuleOp", "XdslAdapter"]

SKIP: Final = "SkipOptimization"
"""The attribute that marks a function as skipped: a unit attribute, or `true`."""


class XdslAdapter:
    """An IRAdapter for `xdsl.dialects.builtin.ModuleOp`.

    Modules are treated as immutable, although xDSL changes them in place.

    - The functions of a module are its symbols with a body, such as `func.func`. A function pass receives one with its
      module, and returns the same operation, or a copy that it has changed.
    - A pass of xDSL receives the result of `isolate`, which it may change in place.

    `fingerprint` and `equal` ignore the names of values and the locations; `exact_fingerprint` includes them.
    """

    thread_safe: bool = False
    """False: the printer of xDSL changes operations of unknown dialects for a moment."""
    suffix: str = ".mlir"
    """The suffix of a file with the bytes that `dumps` returns: text in the generic format."""

    def functions(self, mod: ModuleOp) -> Iterator[tuple[str, Operation]]:
        """Iterate over the symbols with a body."""
        return functions_of(mod)

    def get(self, mod: ModuleOp, name: str) -> Operation:
        """Return the function of that name."""
        for op in mod.body.ops:
            if symbol_of(op) == name and is_function(op):
                func: Operation = op
                return func
        raise KeyError(name)

    def kind(self, func: Operation) -> FunctionKind:
        """Return `"function"`, the only kind."""
        return "function"

    def skips(self, func: Operation) -> bool:
        """Return whether the function has a true attribute `SkipOptimization`.

        It is true unless it is `false` or 0.
        """
        mark = func.get_attr_or_prop(SKIP)
        return mark is not None and not (isinstance(mark, IntegerAttr) and mark.value.data == 0)

    def replace(self, mod: ModuleOp, updates: Mapping[str, Operation]) -> ModuleOp:
        """Return a copy of the module with `updates`.

        Raises:
            AdapterError: if an update is no function, or has another name than the function that it replaces.

        """
        for name, func in updates.items():
            if not isinstance(func, Operation) or not is_function(func):
                raise AdapterError(f"the update of function {name!r} must be an operation with a symbol and a body")
            if function_name(func) != name:
                raise AdapterError(f"the update of function {name!r} is named {function_name(func)!r}; keep the name")
        return _with_functions(mod, updates)

    def fingerprint(self, x: Operation) -> str:
        """Return the fingerprint of the contents, without names and locations."""
        return fingerprint(x)

    def exact_fingerprint(self, x: Operation) -> str:
        """Return the fingerprint with the names of values and blocks, and the locations."""
        return fingerprint(x, exact=True)

    def equal(self, a: Operation, b: Operation) -> bool:
        """Return whether the contents are equal, apart from names and locations."""
        return a is b or fingerprint(a) == fingerprint(b)

    def to_text(self, x: Operation) -> str:
        """Return the text in the format of the dialects, with names and known locations."""
        return print_operation(x)

    def text_parts(self, mod: ModuleOp, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text outside of functions, and that of each named function."""
        functions = dict(functions_of(mod))
        parts = {name: print_operation(functions[name]) for name in names}
        outside = [op for op in mod.body.ops if not (is_function(op) and function_name(op) in parts)]
        return "".join(map(print_operation, outside)), parts

    def verify(self, mod: ModuleOp) -> None:
        """Check the module with the verifiers of its dialects.

        Raises:
            VerifyError: if the module is invalid.

        """
        verify_module(mod, "not a valid module of xDSL")

    def dumps(self, mod: ModuleOp) -> bytes:
        """Return the text of the module in the generic format, with names and locations."""
        return to_bytes(mod)

    def loads(self, data: bytes) -> ModuleOp:
        """Return the module that `dumps` wrote.

        Raises:
            AdapterError: if `data` is not the text of a module.

        """
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise AdapterError(f"the bytes of a module are not UTF-8: {error}") from error
        # The module was accepted when it was read from its file.
        return parse_module(text, "the bytes of a module", allow_unregistered=True)

    def nodes(self, func: Operation) -> Iterator[Node]:
        """Iterate over the operations inside of a function.

        They are named after their first results, `%x`, or numbered: `arith.addi#0`.
        """
        return function_nodes(func)

    def with_locations(self, mod: ModuleOp) -> ModuleOp:
        """Return a copy in which each operation of a function has a location."""
        return with_file_locations(mod)

    def isolate(self, mod: ModuleOp, names: Iterable[str]) -> ModuleOp:
        """Return a private module with copies of the named functions.

        It contains declarations of the functions that they call.
        """
        return module_of(mod, names)

    def extract(self, sub: ModuleOp, names: Iterable[str]) -> Mapping[str, Operation]:
        """Return the named functions of a module that `isolate` returned."""
        by_name = dict(functions_of(sub))
        return {name: by_name[name] for name in names}

    def commit(self, sub: ModuleOp) -> ModuleOp:
        """Return a module with the operations of `sub`, which is empty afterwards."""
        return move_contents(sub)

    def shrinkings(self, mod: ModuleOp) -> Iterator[Shrinking[ModuleOp]]:
        """Iterate over the parts that can be removed.

        - Functions and other operations of the module.
        - Operations inside of functions, whose results are not used or are replaced by others.
        - Blocks and regions that are not entered.
        """
        return shrinkings(mod)


ADAPTER: Final = XdslAdapter()
"""The shared adapter; it has no state."""
