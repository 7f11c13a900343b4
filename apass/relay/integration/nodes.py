"""The nodes of Relay functions, for `apass.plugins.Node`, and artificial spans."""

from collections import Counter
from collections.abc import Iterator
from copy import copy as copy_of
from typing import Final

from apass.adapters.nodes import Node
from apass.core.diagnostics import Span
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.base import SourceName
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
    set_field,
)
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.type_inference.infer import infer_module
from apass.relay.visitors.expr_functor import ExprMutator
from apass.util.fingerprint import fingerprint_value

__all__ = ["function_nodes", "with_spans"]

_NAMES = (Var, GlobalVar, Op, Constructor)
"""Expressions that are names of something else, and so are no nodes."""

_LONG: Final = 64
"""Longer texts of attributes have a digest."""


def function_nodes(func: Function) -> Iterator[Node]:
    """Iterate over the expressions of a function in post-order.

    A value that a Let binds has the name of the variable, if no other has it. Any other node has the name of its
    operator or kind, and a number.
    """
    exprs = [expr for expr in post_order(func) if expr is not func and not isinstance(expr, _NAMES)]
    variables = [expr.var.name_hint for expr in exprs if isinstance(expr, Let)]
    variables += [param.name_hint for expr in (func, *exprs) if isinstance(expr, Function) for param in expr.params]
    counts = Counter(variables)
    bound = {
        expr.value: f"%{expr.var.name_hint}"
        for expr in exprs
        if isinstance(expr, Let) and counts[expr.var.name_hint] == 1
    }
    numbers: Counter[str] = Counter()
    names: dict[Expr, str] = {}
    for expr in exprs:
        kind = _kind(expr)
        names[expr] = bound.get(expr) or f"{kind}#{numbers[kind]}"
        numbers[kind] += expr not in bound
        yield Node(
            name=names[expr],
            text=_text(expr),
            operands=tuple(names.get(child) or _name(child) for child in _operands(expr)),
            results=(names[expr],),
            location=_location(expr.span),
            is_named=expr in bound,
            identity=expr,
        )


def _kind(expr: Expr) -> str:
    """Return the operator of a call, or the kind of another expression."""
    if isinstance(expr, Call):
        return _name(expr.op) if isinstance(expr.op, Op | GlobalVar | Constructor) else "call"
    return type(expr).__name__.lower()


def _text(expr: Expr) -> str:
    """Return the contents of a node without its operands and its type."""
    match expr:
        case Constant():
            value = str(expr.data.item()) if expr.data.ndim == 0 else f"#{expr.data.digest[:16]}"
            return f"constant {expr.data.dtype}{list(expr.data.shape)} {value}"
        case Call(attrs=Attrs() as attrs):
            values = [f"{name}={_shown(value)}" for name, value in attrs.non_default()]
            return f"{_kind(expr)}{{{', '.join(values)}}}" if values else _kind(expr)
        case TupleGetItem():
            return f"{_kind(expr)} {expr.index}"
        case Let():
            return f"let %{expr.var.name_hint}"
        case Function():
            marks = "".join(f" {name}={_shown(value)}" for name, value in sorted(expr.attrs.items()))
            return f"fn({', '.join(_name(param) for param in expr.params)}){marks}"
        case Match():
            return f"match {'; '.join(str(clause.lhs) for clause in expr.clauses)}"
        case _:
            return _kind(expr)


def _shown(value: object) -> str:
    """Return one line that differs for different values."""
    text = " ".join(str(value).split())
    return f"#{fingerprint_value(value)[:16]}" if len(text) > _LONG or hasattr(value, "shape") else text


def _operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the subexpressions that are not part of the text."""
    if isinstance(expr, Call) and isinstance(expr.op, Op | GlobalVar | Constructor):
        return expr.args
    if isinstance(expr, Let):
        return (expr.value, expr.body)
    return (expr.body,) if isinstance(expr, Function) else expr.children


def _name(expr: Expr) -> str:
    match expr:
        case Var():
            return f"%{expr.name_hint}"
        case GlobalVar():
            return f"@{expr.name_hint}"
        case Op() | Constructor():
            return str(getattr(expr, "name", "") or getattr(expr, "name_hint", ""))
        case _:
            return _kind(expr)


def _location(span: Span | None) -> str:
    return "" if span is None else f"{span.source_name}:{span.line}:{span.column}"


def with_spans(mod: IRModule) -> IRModule:
    """Return a module in which each node without a span has one of its own."""
    updates = {gvar.name_hint: mod[gvar] for gvar in mod.get_global_vars()}
    spans = _Spans()
    updates = {name: spans.located(func) for name, func in updates.items()}
    result = mod.with_functions(updates)
    # The mutator drops types.
    return infer_module(result) if any(mod[name].checked_type_ is not None for name in updates) else result


class _Spans(ExprMutator):
    """Gives expressions without a span the next line of the source `apass`."""

    def __init__(self) -> None:
        super().__init__()
        self._line = 0

    def located(self, func: Function) -> Function:
        """Return a function whose nodes have spans."""
        result = self.visit(func)
        assert isinstance(result, Function), "the mutator keeps the kinds of nodes"
        return result

    def _with_span(self, expr: Expr) -> Expr:
        if expr.span is not None:
            return expr
        self._line += 1
        copy = copy_of(expr)
        set_field(copy, "span", Span(SourceName("apass"), self._line, self._line, 1, 1))
        return copy

    def visit_constant(self, const: Constant) -> Expr:
        """Return the constant with a span."""
        return self._with_span(const)

    def visit_tuple(self, tup: Tuple) -> Expr:
        """Return the tuple with a span."""
        return self._with_span(super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Return the projection with a span."""
        return self._with_span(super().visit_tuple_getitem(op))

    def visit_call(self, call: Call) -> Expr:
        """Return the call with a span."""
        return self._with_span(super().visit_call(call))

    def visit_if(self, ite: If) -> Expr:
        """Return the conditional with a span."""
        return self._with_span(super().visit_if(ite))

    def visit_function(self, fn: Function) -> Expr:
        """Return the function with a span."""
        return self._with_span(super().visit_function(fn))

    def visit_match(self, match: Match) -> Expr:
        """Return the match with a span."""
        return self._with_span(super().visit_match(match))

    def visit_ref_create(self, ref: RefCreate) -> Expr:
        """Return the new cell with a span."""
        return self._with_span(super().visit_ref_create(ref))

    def visit_ref_read(self, ref: RefRead) -> Expr:
        """Return the read with a span."""
        return self._with_span(super().visit_ref_read(ref))

    def visit_ref_write(self, ref: RefWrite) -> Expr:
        """Return the write with a span."""
        return self._with_span(super().visit_ref_write(ref))

    def post_visit_let(self, let: Let) -> Expr:
        """Return the Let with a span."""
        return self._with_span(super().post_visit_let(let))
