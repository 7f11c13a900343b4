"""The adapter for Relay, `apass.relay.IRModule`: its functions are the module's, by their global names."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, DiagnosticError, VerifyError
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.integration.reductions import shrinkings
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import exact_fingerprint, fingerprint, structural_equal
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext
from apass.relay.type_inference.infer import infer_function, infer_module
from apass.util.delta_debugging import Shrinking
from apass.util.fingerprint import fingerprint_value

__all__ = ["ADAPTER", "RelayAdapter"]

SKIP: Final = "SkipOptimization"
"""The attribute of a function that is to be skipped."""


class RelayAdapter:
    """An IRAdapter for `IRModule`. Nodes are immutable, so modules share all that a pass did not change."""

    thread_safe: bool = True
    """The adapter touches nothing but the module it is given."""
    suffix: str = ".relay"
    """The ending of a file that has what `dumps` returns: Relay's text."""

    def functions(self, mod: IRModule) -> Iterator[tuple[str, Function]]:
        """Go over the functions by their global names."""
        for gvar in mod.get_global_vars():
            yield gvar.name_hint, mod[gvar]

    def get(self, mod: IRModule, name: str) -> Function:
        """Return a function by its name; KeyError, with a suggestion, if there is none."""
        return mod[name]

    def kind(self, func: Function) -> FunctionKind:
        """Return `"function"`: Relay has no others."""
        return "function"

    def replace(self, mod: IRModule, updates: Mapping[str, Function]) -> IRModule:
        """Return a module with `updates` in the places of the functions of those names.

        Raises:
            AdapterError: if there is no function of a name.

        """
        for name in updates:
            if name not in mod:
                raise AdapterError(f"the module has no function @{name} to be replaced; it has {mod!r}")
        return mod.with_functions(updates)

    def skips(self, func: Function) -> bool:
        """Tell whether the function has a true attribute `SkipOptimization`."""
        return bool(func.attrs.get(SKIP))

    def fingerprint(self, x: IRModule | Expr) -> str:
        """Return the structural hash: equal for programs that differ in the names of local variables alone."""
        return fingerprint(x)

    def exact_fingerprint(self, x: IRModule | Expr) -> str:
        """Return a fingerprint that goes by local names, the order of functions, and what has types, too."""
        if not isinstance(x, IRModule):
            return f"{exact_fingerprint(x)} {x.checked_type_ is not None}"
        order = [(name, func.checked_type_ is not None) for name, func in self.functions(x)]
        return f"{exact_fingerprint(x)} {fingerprint_value(order)}"

    def equal(self, a: IRModule | Expr, b: IRModule | Expr) -> bool:
        """Compare by structure."""
        return a is b or structural_equal(a, b)

    def to_text(self, x: IRModule | Expr) -> str:
        """Return Relay's text, without the contents of its constants."""
        return astext(x, show_meta_data=False)

    def verify(self, mod: IRModule) -> None:
        """Check that the module is well-formed and has types; VerifyError, saying what is wrong, if not."""
        wrong = what_is_ill_formed(mod)
        if wrong:
            raise VerifyError(f"the module is not well-formed: {'; '.join(wrong)}")
        try:
            infer_module(mod, trust=False)
        except DiagnosticError as error:
            raise VerifyError(f"the module has no types:\n{error}") from error

    def dumps(self, mod: IRModule) -> bytes:
        """Return the module's text, with the contents of its constants."""
        return astext(mod).encode()

    def loads(self, data: bytes) -> IRModule:
        """Return the module that `dumps` wrote; ParseError if `data` holds none."""
        return read_module(data.decode())

    def adopt(self, sub: IRModule, mod: IRModule) -> IRModule:
        """Return `sub`, read from bytes, with the data types of `mod` in the place of its own of the same names.

        A data type is the one object that defines it, so that functions of the one would not fit into the other. What
        takes the place of a function with types gets types, where `mod` has all that they depend on.
        """
        types = mod.type_definitions
        if types:
            sub = read_module(astext(IRModule(sub.functions)), init_module=IRModule(type_definitions=types))
        before = dict(self.functions(mod))
        made = {name: func for name, func in self.functions(sub) if name in before and _has_types(before[name])}
        return sub.with_functions({name: _typed(func, mod) for name, func in made.items()}) if made else sub

    def facts(self, mod: IRModule) -> dict[str, list[str]]:
        """Return which functions have types, as the text does not say."""
        return {"typed": [name for name, func in self.functions(mod) if func.checked_type_ is not None]}

    def restore(self, mod: IRModule, facts: Mapping[str, list[str]]) -> IRModule:
        """Return a module whose functions have types where `facts` says so, and where they still can be found."""
        if not facts["typed"]:
            return mod
        try:
            typed = infer_module(mod)
        except DiagnosticError:
            return mod
        return mod.with_functions({name: typed[name] for name in facts["typed"] if name in typed})

    def shrinkings(self, mod: IRModule) -> Iterator[Shrinking[IRModule]]:
        """Go over what can be left out, or put simpler: functions, expressions, parameters."""
        return shrinkings(mod)

    def isolate(self, mod: IRModule, names: Iterable[str]) -> IRModule:
        """Return a module of the named functions, with all data types; nodes are immutable, so none is copied."""
        kept = set(names)
        return mod.without_functions([name for name, _ in self.functions(mod) if name not in kept])

    def extract(self, sub: IRModule, names: Iterable[str]) -> Mapping[str, Function]:
        """Return the named functions of a module that `isolate` made."""
        return {name: sub[name] for name in names}


def _has_types(func: Function) -> bool:
    """Tell whether a function or what is in it was inferred; a pass may have put what has types in a new one."""
    return func.checked_type_ is not None or func.body.checked_type_ is not None


def _typed(func: Function, mod: IRModule) -> Function:
    """Return a function with types; as it is, if they cannot be found in `mod`."""
    try:
        return infer_function(func, mod)
    except DiagnosticError:
        return func


ADAPTER: Final = RelayAdapter()
"""The adapter; it has no state."""
