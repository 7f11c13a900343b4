"""Exceptions of Relay: parser, type checker, evaluator, front ends and passes."""

from apass.errors import ApassError, DiagnosticError

__all__ = [
    "AnnotationError",
    "EvaluationError",
    "NormalFormError",
    "OpNotImplementedError",
    "ParseError",
    "SerializationError",
    "TextLimitError",
    "TypeInferenceError",
    "UnknownOpError",
    "UnknownTypeKeyError",
    "shortened",
]


class AnnotationError(ApassError, ValueError):
    """The marks `compiler_begin` and `compiler_end` of a program do not form regions."""


class UnknownOpError(ApassError, LookupError):
    """No operator is registered under the name. The message suggests a similar name."""


class UnknownTypeKeyError(ApassError, LookupError):
    """No class is registered under the type key. The message suggests a similar key."""


class SerializationError(ApassError, ValueError):
    """A JSON text does not contain a program, or a value has no form in JSON.

    The message names the number of the node in the text.
    """


class OpNotImplementedError(ApassError, NotImplementedError):
    """A front end, a pass or a back end does not support some operators.

    The message names all of them, not only the first.
    """


class ParseError(DiagnosticError, ValueError):
    """The text is not valid Relay.

    The message shows the source line with a caret under the error.
    """


class TextLimitError(ApassError, ValueError):
    """A part of a program has too long a text.

    A type that shares parts can be small in memory, but exponentially long as text.
    """


class TypeInferenceError(DiagnosticError, TypeError):
    """The program is ill-typed.

    The message names the expression, the expected type and the actual type.
    """


class NormalFormError(ApassError, ValueError):
    """The program is not in the normal form that a check requires.

    The message names an expression that is used in several blocks.
    """


class EvaluationError(ApassError, RuntimeError):
    """An expression has no value.

    Causes are a free variable, a match in which no clause fits, or an operator without a kernel.
    """


def shortened(message: str, limit: int = 500) -> str:
    """Return a message with dots in place of its middle, if it is too long.

    A message may contain a name, a number or a type of any length.
    """
    if len(message) <= limit:
        return message
    return f"{message[: limit * 2 // 3]} ... {message[-limit // 3 :]}"
