"""`TypeErrors`: what type inference found wrong, gathered and then raised as one error; how it names expressions."""

from collections.abc import Mapping, Sequence

from apass.core.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel
from apass.relay.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.function import Function
from apass.relay.ref import RefCreate, RefRead, RefWrite

__all__ = ["TypeErrors", "describe", "describe_pattern"]


class TypeErrors:
    """Errors, each at an expression of a function."""

    def __init__(self) -> None:
        self.function: str | None = None
        """The name of the function that is looked at, for the errors that follow."""
        self._found: list[Diagnostic] = []

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._found)

    def extend(self, others: "TypeErrors") -> None:
        """Add all errors of another."""
        self._found += others._found

    def add(self, expr: Expr, message: str, at: Expr | None = None) -> None:
        """Add an error about an expression; `at` is the one below it that is shown, if it has a place in the source."""
        text = f"in `{describe(expr)}`: {message}"
        # A variable is one node wherever it is used, and its span is where it is bound.
        shown = expr if at is None or at.span is None or isinstance(at, Var | GlobalVar) else at
        self._found.append(Diagnostic(DiagnosticLevel.ERROR, text, shown.span, function=self.function))

    def throw(self, sources: Mapping[str, str], order: Sequence[str] = ()) -> None:
        """Raise all errors as one, with excerpts of the sources that they point into; do nothing if there are none.

        Those of the functions in `order` come in this order.

        Raises:
            TypeInferenceError: if there are any.

        """
        if not self._found:
            return
        diag_ctx = DiagnosticContext(sources)
        places = {name: place for place, name in enumerate(order)}
        for one in sorted(self._found, key=lambda error: places.get(error.function or "", -1)):
            diag_ctx.emit(one)
        raise TypeInferenceError(diag_ctx.rendered())


def describe(expr: Expr) -> str:
    """Return an expression in short, whatever is below it: as in Relay's text, with dots for what is left out.

    >>> from apass.relay.make import const, var
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
    """Return an expression within another, in a few words."""
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
    """Return Relay's text of a pattern."""
    if isinstance(pattern, PatternVar):
        return f"%{pattern.var.name_hint}"
    if isinstance(pattern, PatternTuple):
        return f"({', '.join(map(describe_pattern, pattern.patterns))})"
    if not isinstance(pattern, PatternConstructor):
        return "_"
    inner = ", ".join(map(describe_pattern, pattern.patterns))
    return f"{pattern.constructor.name_hint}({inner})" if inner else pattern.constructor.name_hint
