"""Type inference of modules, functions and expressions, as in TVM 0.8.

Inference is incremental and stable. The existing types of nodes are trusted, so only new nodes are inferred. A node
whose types are correct stays the same object, so inference of a typed program returns the same program.
"""

from collections.abc import Iterable, Mapping

from apass.relay.ir.expr import Expr, GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.annotate import annotate
from apass.relay.type_inference.errors import TypeErrors
from apass.relay.type_inference.globals import GlobalTypes
from apass.relay.type_inference.inferencer import Inferencer

__all__ = ["ensure_typed", "infer_expr", "infer_function", "infer_module"]


def infer_module(mod: IRModule, *, trust: bool = True) -> IRModule:
    """Return a module in which all functions are typed, or `mod` if they already are.

    If `trust` is false, existing types are inferred again. The result is still `mod` if all of them are correct.

    Missing types of parameters and results are inferred from the body, and from the bodies of mutually recursive
    functions. Other callers do not contribute, so the order of functions does not matter.

    Raises:
        TypeInferenceError: if there are type errors. The message contains the errors of all functions.

    """
    if trust and mod.is_typed:
        return mod
    inference = _Inference(mod, trust)
    names = [gvar.name_hint for gvar in mod.get_global_vars()]
    typed = inference.infer_undeclared(names)
    for name in names:
        if name not in typed:
            typed |= inference.infer_together({name: mod[name]})
    inference.errors.throw(mod.source_map, names)
    changed = {name: typed[name] for name in names if typed[name] is not mod[name]}
    result = mod.with_functions(changed) if changed else mod
    # Many passes require types, or infer them, and change nothing. Each check would visit every node again.
    result.is_typed = True
    return result


def infer_function(func: Function, mod: IRModule) -> Function:
    """Return a typed function. `mod` contains its callees, and does not change.

    Raises:
        TypeInferenceError: if there are type errors. The message contains all of them.

    """
    typed = infer_expr(func, mod)
    assert isinstance(typed, Function), "type inference preserves the class of an expression"
    return typed


def infer_expr(expr: Expr, mod: IRModule | None = None, *, trust: bool = True) -> Expr:
    """Return a typed expression. `mod` contains its callees and data types.

    If `trust` is false, existing types are inferred again.

    Raises:
        TypeInferenceError: if there are type errors. The message contains all of them.

    >>> from apass.relay.ir.expr import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> str(infer_expr(add(var("x", shape=(2, 3)), const(1.0))).checked_type)
    'Tensor[(2, 3), float32]'
    """
    context = mod if mod is not None else IRModule()
    inference = _Inference(context, trust)
    typed = inference.infer_undeclared(inference.types.names_in(expr))
    # A recursive function of the module was inferred as one of its own references.
    own_name = next((name for name in typed if context[name] is expr), None)
    if own_name is None:
        typed |= inference.infer_together({"": expr})
    inference.errors.throw(context.source_map)
    return typed[own_name or ""]


def ensure_typed(func: Function, mod: IRModule) -> Function:
    """Return a typed function, or `func` if it has a type. `mod` contains its callees.

    Raises:
        TypeInferenceError: if there are type errors. The message contains all of them.

    """
    return func if func.checked_type_ is not None else infer_function(func, mod)


class _Inference:
    """One inference run, with the types and errors of the functions of a module."""

    def __init__(self, mod: IRModule, trust: bool) -> None:
        self._mod = mod
        self._trust = trust
        self.types = GlobalTypes(mod, trust)
        """The types of the module's functions."""
        self.errors = TypeErrors()
        """The type errors."""

    def infer_undeclared(self, names: Iterable[str]) -> dict[str, Expr]:
        """Infer the functions without declared types that are reachable from `names`."""
        typed: dict[str, Expr] = {}
        for group in self.types.groups(names):
            typed |= self.infer_together({name: self._mod[name] for name in group})
        return typed

    def infer_together(self, exprs: Mapping[str, Expr]) -> Mapping[str, Expr]:
        """Return the typed expressions, which share the types of undeclared functions."""
        undeclared = [name for name in exprs if name in self._mod and self.types(GlobalVar(name)) is None]
        typed, errors, valid = self._attempt(exprs, undeclared, trusting=self._trust)
        if not valid:
            typed, errors, _ = self._attempt(exprs, undeclared, trusting=False)
        self.errors.extend(errors)
        return typed

    def _attempt(
        self, exprs: Mapping[str, Expr], undeclared: Iterable[str], *, trusting: bool
    ) -> tuple[Mapping[str, Expr], TypeErrors, bool]:
        """Return the typed expressions, the errors, and whether trusted types are valid."""
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
