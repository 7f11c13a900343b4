"""Operators between terms, and how tightly they bind."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from apass.core.diagnostics import Span
from apass.relay.expr import Call, Expr, Op

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
"""What each is called as an operator of Relay, and how tightly it binds; all are applied from left to right."""


class Operand(NamedTuple):
    """An expression and where in the text it stands."""

    expr: Expr
    start: int
    end: int


class Operation(NamedTuple):
    """Operands, and the operators between them."""

    operands: list[Operand]
    operators: list[str]


def resolve(operation: Operation, span: Callable[[int, int], Span]) -> Expr:
    """Return the calls that the operators stand for; `span` makes the span between two offsets."""
    first, *others = operation.operands
    done, waiting = [first], list[str]()
    for operator, operand in zip(operation.operators, others, strict=True):
        while waiting and OPERATORS[waiting[-1]][1] >= OPERATORS[operator][1]:
            _apply(done, waiting.pop(), span)
        waiting.append(operator)
        done.append(operand)
    while waiting:
        _apply(done, waiting.pop(), span)
    return done[0].expr


def _apply(done: list[Operand], operator: str, span: Callable[[int, int], Span]) -> None:
    right, left = done.pop(), done.pop()
    op = Op.get(OPERATORS[operator][0])
    call = Call(op, (left.expr, right.expr), span=span(left.start, right.end))
    done.append(Operand(call, left.start, right.end))
