"""`TypeErrors`: collects type errors. `describe`: short texts of expressions."""

from collections.abc import Mapping, Sequence
from typing import Final

from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.relay.errors import TypeInferenceError, shortened
from apass.relay.ir.adt import Constructor, Match, Pattern
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.visitors.patterns import pattern_text

__all__ = ["TypeErrors", "describe", "describe_pattern"]

_MOST_CHARACTERS: Final = 5000
"""Maximum length of a message."""


class TypeErrors:
    """Type errors, each at an expression of a function."""

    def __init__(self) -> None:
        self.function: str | None = None
        """The name of the current function, added to each new error."""
        self._errors: list[Diagnostic] = []

    def __len__(self) -> int:
        """Return the number of errors."""
        return len(self._errors)

    def extend(self, others: "TypeErrors") -> None:
        """Add all errors of `others`."""
        self._errors += others._errors

    def add(self, expr: Expr, message: str, at: Expr | None = None) -> None:
        """Add an error about an expression.

        `at` is a subexpression. If it has a span, the message shows its source text instead.
        """
        text = f"in `{shortened(describe(expr))}`: {shortened(message, _MOST_CHARACTERS)}"
        # A variable is one shared node whose span is its binding, not the erroneous use.
        location = expr if at is None or at.span is None or isinstance(at, Var | GlobalVar) else at
        self._errors.append(Diagnostic(DiagnosticLevel.ERROR, text, location.span, function=self.function))

    def throw(self, sources: Mapping[str, str], order: Sequence[str] = ()) -> None:
        """Raise all errors as one, with source excerpts. Do nothing if there are none.

        Errors are sorted by the position of their function in `order`.

        Raises:
            TypeInferenceError: if there are errors.

        """
        if not self._errors:
            return
        diag_ctx = DiagnosticContext(sources)
        positions = {name: index for index, name in enumerate(order)}
        for diagnostic in sorted(self._errors, key=lambda error: positions.get(error.function or "", -1)):
            diag_ctx.emit(diagnostic)
        raise TypeInferenceError(diag_ctx.rendered())


def describe(expr: Expr) -> str:
    """Return a short text of an expression, with dots in place of nested expressions.

    >>> from apass.relay.ir.expr import const, var
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> describe(add(var("x"), add(var("y"), const(1))))
    'add(%x, add(...))'
    """
    if isinstance(expr, Call):
        return f"{_inner(expr.op)}({', '.join(map(_inner, expr.args))})"
    if isinstance(expr, Tuple):
        return f"({', '.join(map(_inner, expr.fields))}{',' * (len(expr.fields) == 1)})"
    if isinstance(expr, TupleGetItem):
        return f"{_inner(expr.tuple_value)}.{expr.index}"
    if isinstance(expr, Let):
        return f"let {_inner(expr.var)} = {_inner(expr.value)}; ..."
    if isinstance(expr, If):
        return f"if ({_inner(expr.cond)}) {{ {_inner(expr.true_branch)} }} else {{ {_inner(expr.false_branch)} }}"
    if isinstance(expr, Function):
        return f"fn ({', '.join(map(_inner, expr.params))}) {{ {_inner(expr.body)} }}"
    if isinstance(expr, Match):
        return f"match ({_inner(expr.data)}) {{ ... }}"
    if isinstance(expr, RefCreate | RefRead | RefWrite):
        return f"{_REFS[type(expr)]}({', '.join(map(_inner, expr.children))})"
    return _inner(expr)


_REFS: Mapping[type[Expr], str] = {RefCreate: "ref", RefRead: "ref_read", RefWrite: "ref_write"}
_KINDS: Mapping[type[Expr], str] = {
    Tuple: "(...)",
    Let: "let ...",
    If: "if ...",
    Function: "fn ...",
    Match: "match ...",
    RefCreate: "ref(...)",
    RefRead: "ref_read(...)",
    RefWrite: "ref_write(...)",
}


def _inner(expr: Expr) -> str:
    """Return a shorter text of an expression for use within another one."""
    if isinstance(expr, Var):
        return f"%{expr.name_hint}"
    if isinstance(expr, GlobalVar):
        return f"@{expr.name_hint}"
    if isinstance(expr, Op):
        return expr.name
    if isinstance(expr, Constructor):
        return expr.name_hint
    if isinstance(expr, Constant):
        return str(expr.data.numpy()) if not expr.data.shape else f"<constant {expr.checked_type}>"
    if isinstance(expr, Call):
        callee = _inner(expr.op) if not expr.op.children else "..."
        return f"{callee}({'...' if expr.args else ''})"
    if isinstance(expr, TupleGetItem):
        return f"(...).{expr.index}"
    return _KINDS.get(type(expr), repr(expr))


def describe_pattern(pattern: Pattern) -> str:
    """Return Relay's text of a pattern, shortened."""
    return shortened(pattern_text(pattern, lambda var: f"%{var.name_hint}"))
