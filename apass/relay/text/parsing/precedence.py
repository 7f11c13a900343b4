"""Infix operators and their precedence."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from apass.core.diagnostics import Span
from apass.relay.ir.expr import Call, Expr, Op

__all__ = ["OPERATORS", "Operand", "Operation", "resolve"]

OPERATORS: Final[Mapping[str, tuple[str, int]]] = {
    "*": ("multiply", 12),
    "/": ("divide", 12),
    "+": ("add", 10),
    "-": ("subtract", 10),
    "<": ("less", 8),
    ">": ("greater", 8),
    "<=": ("less_equal", 8),
    ">=": ("greater_equal", 8),
    "==": ("equal", 7),
    "!=": ("not_equal", 7),
}
"""The Relay operator and precedence of each infix operator. All are left-associative."""


class Operand(NamedTuple):
    """An expression and its location in the text."""

    expr: Expr
    start: int
    end: int


class Operation(NamedTuple):
    """A sequence of operands with operators between them."""

    operands: list[Operand]
    operators: list[str]


def resolve(operation: Operation, span: Callable[[int, int], Span]) -> Expr:
    """Return the nested calls of an operation. `span` returns the span of offsets."""
    # The shunting-yard algorithm.
    first, *others = operation.operands
    output, pending = [first], list[str]()
    for operator, operand in zip(operation.operators, others, strict=True):
        while pending and OPERATORS[pending[-1]][1] >= OPERATORS[operator][1]:
            _apply(output, pending.pop(), span)
        pending.append(operator)
        output.append(operand)
    while pending:
        _apply(output, pending.pop(), span)
    return output[0].expr


def _apply(output: list[Operand], operator: str, span: Callable[[int, int], Span]) -> None:
    right, left = output.pop(), output.pop()
    op = Op.get(OPERATORS[operator][0])
    call = Call(op, (left.expr, right.expr), span=span(left.start, right.end))
    output.append(Operand(call, left.start, right.end))
