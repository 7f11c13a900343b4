"""The errors of Relay: what the parser, the type checker, the evaluator and the front ends raise."""

from apass.errors import ApassError, DiagnosticError

__all__ = [
    "EvaluationError",
    "OpNotImplementedError",
    "ParseError",
    "TypeInferenceError",
    "UnknownOpError",
]


class UnknownOpError(ApassError, LookupError):
    """No operator is registered under the name; the message suggests the nearest one."""


class OpNotImplementedError(ApassError, NotImplementedError):
    """A front end met operators that it cannot translate; the message names all of them."""


class ParseError(DiagnosticError, ValueError):
    """The text is not Relay; the message shows the line with a caret under what does not fit."""


class TypeInferenceError(DiagnosticError, TypeError):
    """The program has no type: the message says which expression, what was expected and what was found."""


class EvaluationError(ApassError, RuntimeError):
    """The evaluator met something that has no value: a free variable, a match without a clause, a missing kernel."""
