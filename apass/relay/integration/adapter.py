"""The adapter for Relay modules (`apass.relay.IRModule`).

Functions are identified by their global names.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from apass.adapters.nodes import Node
from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, DiagnosticError, VerifyError
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.integration.nodes import function_nodes, with_spans
from apass.relay.integration.reductions import shrinkings
from apass.relay.ir.expr import Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import exact_fingerprint, fingerprint, structural_equal
from apass.relay.text.parsing.reader import read_module, read_module_bytes
from apass.relay.text.printing.printer import astext, text_by_function, text_parts
from apass.relay.type_inference.infer import infer_function, infer_module
from apass.util.delta_debugging import Shrinking
from apass.util.fingerprint import fingerprint_value

__all__ = ["ADAPTER", "RelayAdapter"]

SKIP: Final = "SkipOptimization"
"""The attribute that marks a function to be skipped, as in TVM."""
COMPILER: Final = "Compiler"
"""The attribute that names the other compiler that translates a function."""


class RelayAdapter:
    """An `IRAdapter` for `IRModule`.

    Nodes are immutable, so modules share all nodes that a pass did not change.
    """

    thread_safe: bool = True
    """The adapter accesses only its arguments, so it may run in any thread."""
    suffix: str = ".relay"
    """The suffix of files with the output of `dumps`: Relay's text format."""

    def functions(self, mod: IRModule) -> Iterator[tuple[str, Function]]:
        """Iterate over the functions with their global names."""
        for gvar in mod.get_global_vars():
            yield gvar.name_hint, mod[gvar]

    def get(self, mod: IRModule, name: str) -> Function:
        """Return the function of that name.

        Raises:
            KeyError: if there is none; the message suggests the nearest name.

        """
        return mod[name]

    def kind(self, func: Function) -> FunctionKind:
        """Return `"function"`, the only kind in Relay."""
        return "function"

    def replace(self, mod: IRModule, updates: Mapping[str, Function]) -> IRModule:
        """Return a module in which `updates` replace the functions of those names.

        Raises:
            AdapterError: if the module has no function of one of the names.

        """
        for name in updates:
            if name not in mod:
                raise AdapterError(f"cannot replace function @{name}: the module has none of that name; it has {mod!r}")
        return mod.with_functions(updates)

    def skips(self, func: Function) -> bool:
        """Return whether function passes leave the function as it is.

        This is a true attribute `SkipOptimization`, or an attribute `Compiler`: another compiler then translates the
        function, and looks for the operators that it had when it was partitioned.
        """
        return bool(func.attrs.get(SKIP)) or func.attrs.get(COMPILER) is not None

    def fingerprint(self, x: IRModule | Expr) -> str:
        """Return the structural hash, which ignores the names of local variables."""
        return fingerprint(x)

    def exact_fingerprint(self, x: IRModule | Expr) -> str:
        """Return a fingerprint that also covers local names, function order and typedness."""
        if not isinstance(x, IRModule):
            return f"{exact_fingerprint(x)} {x.checked_type_ is not None}"
        order = [(name, func.checked_type_ is not None) for name, func in self.functions(x)]
        return f"{exact_fingerprint(x)} {fingerprint_value(order)}"

    def equal(self, a: IRModule | Expr, b: IRModule | Expr) -> bool:
        """Return whether two modules or expressions are structurally equal."""
        return a is b or structural_equal(a, b)

    def to_text(self, x: IRModule | Expr) -> str:
        """Return the program as Relay text, without the contents of constants.

        In a module, the numbers of graph variables and of references to the metadata start anew in each function.
        """
        return text_by_function(x) if isinstance(x, IRModule) else astext(x, show_meta_data=False)

    def text_parts(self, mod: IRModule, names: Iterable[str]) -> tuple[str, Mapping[str, str]]:
        """Return the text of version and data types, and of each named function."""
        return text_parts(mod, names)

    def verify(self, mod: IRModule) -> None:
        """Check that the module is well-formed and that its types can be inferred.

        Raises:
            VerifyError: if a check fails; the message lists the errors.

        """
        faults = what_is_ill_formed(mod)
        if faults:
            raise VerifyError(f"the module is not well-formed: {'; '.join(faults)}")
        try:
            # trust=False: recompute the types that are attached already, in case a pass attached wrong ones.
            infer_module(mod, trust=False)
        except DiagnosticError as error:
            raise VerifyError(f"the module has no types:\n{error}") from error

    def dumps(self, mod: IRModule) -> bytes:
        """Return the module as encoded Relay text, with the contents of constants."""
        return astext(mod).encode()

    def loads(self, data: bytes) -> IRModule:
        """Return the module that `dumps` wrote.

        Raises:
            ParseError: if `data` is not the text of a module.

        """
        return read_module_bytes(data)

    def adopt(self, sub: IRModule, mod: IRModule) -> IRModule:
        """Return `sub`, read from bytes, with the data types of `mod` in place of its own.

        A data type is equal only to itself, so functions of `sub` would otherwise not fit into `mod`.
        A function that replaces one with types gets types too, if `mod` has all its dependencies.
        """
        types = mod.type_definitions
        if types:
            # Print and read the functions again: the parser resolves type names against `init_module`.
            sub = read_module(astext(IRModule(sub.functions)), init_module=IRModule(type_definitions=types))
        old = dict(self.functions(mod))
        new = {name: func for name, func in self.functions(sub) if name in old and _has_types(old[name])}
        return sub.with_functions({name: _typed(func, mod) for name, func in new.items()}) if new else sub

    def facts(self, mod: IRModule) -> dict[str, list[str]]:
        """Return the names of functions with types, which the text does not record."""
        return {"typed": [name for name, func in self.functions(mod) if func.checked_type_ is not None]}

    def restore(self, mod: IRModule, facts: Mapping[str, list[str]]) -> IRModule:
        """Infer the types of the functions that `facts` lists, if inference succeeds."""
        if not facts["typed"]:
            return mod
        try:
            typed = infer_module(mod)
        except DiagnosticError:
            return mod
        return mod.with_functions({name: typed[name] for name in facts["typed"] if name in typed})

    def shrinkings(self, mod: IRModule) -> Iterator[Shrinking[IRModule]]:
        """Iterate over the reductions of functions, expressions and parameters."""
        return shrinkings(mod)

    def sources(self, mod: IRModule) -> Mapping[str, str]:
        """Return the source texts of the module by name."""
        return mod.source_map

    def nodes(self, func: Function) -> Iterator[Node]:
        """Iterate over the expressions of a function in post-order.

        Variables and operators are left out. A value that a Let binds is named after the variable. Other nodes are
        numbered by operator: `nn.conv2d#0`.
        """
        return function_nodes(func)

    def with_locations(self, mod: IRModule) -> IRModule:
        """Return a module in which each node without a span has one of its own."""
        return with_spans(mod)

    def strategy(self) -> Any:
        """Return a Hypothesis strategy for well-typed modules with a `main`."""
        # Hypothesis is needed in tests only, and this module is above the adapter.
        from apass.relay.testing.programs import programs

        return programs().map(itemgetter(0)).map(infer_module)

    def isolate(self, mod: IRModule, names: Iterable[str]) -> IRModule:
        """Return a module of the named functions, with all data types.

        No node is copied, because nodes are immutable.
        """
        selected = set(names)
        return mod.without_functions([name for name, _ in self.functions(mod) if name not in selected])

    def extract(self, sub: IRModule, names: Iterable[str]) -> Mapping[str, Function]:
        """Return the named functions of a module that `isolate` made."""
        return {name: sub[name] for name in names}


def _has_types(func: Function) -> bool:
    """Return whether a function or its body has types."""
    # A pass may put a typed body into a new function that has no type yet.
    return func.checked_type_ is not None or func.body.checked_type_ is not None


def _typed(func: Function, mod: IRModule) -> Function:
    """Return the function with types, or unchanged if type inference fails."""
    try:
        return infer_function(func, mod)
    except DiagnosticError:
        return func


ADAPTER: Final = RelayAdapter()
"""The adapter; it has no state."""
