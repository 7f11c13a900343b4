"""`infer_module`, `infer_function`, `infer_expr` and `ensure_typed`: the types of a program, as TVM 0.8 infers them.

A node that is typed already and whose types still hold stays the same object, so typing a program again gives the
same program. Nodes that have a type are taken at their word: what is inferred anew is what was built since.
"""

from collections.abc import Iterable, Mapping

from apass.relay.expr import Expr, GlobalVar
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.annotate import annotate
from apass.relay.type_inference.errors import TypeErrors
from apass.relay.type_inference.globals import GlobalTypes
from apass.relay.type_inference.inferencer import Inferencer

__all__ = ["ensure_typed", "infer_expr", "infer_function", "infer_module"]


def infer_module(mod: IRModule, *, trust: bool = True) -> IRModule:
    """Return a module all of whose functions are typed; the same module if they are.

    Without `trust` no node is taken at its word: the same module comes back if all its types are right.

    A function whose author gave no type to a parameter or to the result gets it from its body, and from those of the
    functions that it calls and that call it back; callers alone decide nothing. So the order of functions has no say.

    Raises:
        TypeInferenceError: with everything that is wrong, of all functions.

    """
    work = _Work(mod, trust)
    names = [gvar.name_hint for gvar in mod.get_global_vars()]
    typed = work.infer_undeclared(names)
    for name in names:
        if name not in typed:
            typed |= work.infer_together({name: mod[name]})
    work.errors.throw(mod.source_map, names)
    changed = {name: typed[name] for name in names if typed[name] is not mod[name]}
    return mod.with_functions(changed) if changed else mod


def infer_function(func: Function, mod: IRModule) -> Function:
    """Return a function with types; `mod` has the functions that it calls, which are not changed.

    Raises:
        TypeInferenceError: with everything that is wrong.

    """
    typed = infer_expr(func, mod)
    assert isinstance(typed, Function), "an expression is of the same kind when it is typed"
    return typed


def infer_expr(expr: Expr, mod: IRModule | None = None, *, trust: bool = True) -> Expr:
    """Return an expression with types; `mod` has the functions and data types that it refers to.

    Without `trust` no node is taken at its word.

    Raises:
        TypeInferenceError: with everything that is wrong.

    >>> from apass.relay.make import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> str(infer_expr(add(var("x", shape=(2, 3)), const(1.0))).checked_type)
    'Tensor[(2, 3), float32]'
    """
    known = mod if mod is not None else IRModule()
    work = _Work(known, trust)
    typed = work.infer_undeclared(work.types.names_in(expr))
    itself = next((name for name in typed if known[name] is expr), None)
    if itself is None:
        typed |= work.infer_together({"": expr})
    work.errors.throw(known.source_map)
    return typed[itself or ""]


def ensure_typed(func: Function, mod: IRModule) -> Function:
    """Return a function with types, itself if it has been typed; `mod` has the functions that it calls.

    Raises:
        TypeInferenceError: with everything that is wrong.

    """
    return func if func.checked_type_ is not None else infer_function(func, mod)


class _Work:
    """The inference of what is asked for, with the functions of one module."""

    def __init__(self, mod: IRModule, trust: bool) -> None:
        self._mod = mod
        self._trust = trust
        self.types = GlobalTypes(mod, trust)
        """The types of the module's functions."""
        self.errors = TypeErrors()
        """What is wrong."""

    def infer_undeclared(self, names: Iterable[str]) -> dict[str, Expr]:
        """Return the functions, of those named and those they refer to, whose types are found from their bodies."""
        typed: dict[str, Expr] = {}
        for group in self.types.groups(names):
            typed |= self.infer_together({name: self._mod[name] for name in group})
        return typed

    def infer_together(self, exprs: Mapping[str, Expr]) -> Mapping[str, Expr]:
        """Return expressions with types; functions that do not tell theirs are known by what is found meanwhile."""
        undeclared = [name for name in exprs if name in self._mod and self.types(GlobalVar(name)) is None]
        typed, found, holds = self._attempt(exprs, undeclared, trusting=self._trust)
        if not holds:
            typed, found, _ = self._attempt(exprs, undeclared, trusting=False)
        self.errors.extend(found)
        return typed

    def _attempt(
        self, exprs: Mapping[str, Expr], undeclared: Iterable[str], *, trusting: bool
    ) -> tuple[Mapping[str, Expr], TypeErrors, bool]:
        """Return expressions with types, what is wrong with them, and whether what was taken at its word holds."""
        errors = TypeErrors()
        inferencer = Inferencer(self._mod, self.types, errors, trusting=trusting)
        for name in undeclared:
            self.types.set(name, inferencer.signature(self._mod[name]))
        for name, expr in exprs.items():
            errors.function = name or None
            inferencer.infer(expr)
        new = annotate(exprs, inferencer, errors)
        typed = {name: new.get(expr, expr) for name, expr in exprs.items()}
        for name in undeclared:
            self.types.set(name, typed[name].checked_type if new else None)
        trusted = inferencer.trusted
        return typed, errors, not trusted or (bool(new) and self.types.fit(trusted))
