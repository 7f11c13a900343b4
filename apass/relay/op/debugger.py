"""`debug`: calls a function with a value while a program runs."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from apass.relay.errors import EvaluationError
from apass.relay.interpreter.values import Value, describe_value
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import identity_relation

__all__ = ["DebugAttrs", "debug"]

_functions: Final[dict[str, Callable[[Value], object]]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class DebugAttrs(Attrs):
    """The attributes of debug."""

    debug_func: str = ""
    """The name of the function to call, or an empty string to print the value."""


def _debug(attrs: DebugAttrs, program: Array) -> Array:
    if not attrs.debug_func:
        sys.stdout.write(f"debug: {describe_value(program)}\n{program}\n")
    elif attrs.debug_func in _functions:
        _functions[attrs.debug_func](program)
    else:
        raise EvaluationError(f"there is no debug function {attrs.debug_func!r}; make the call with relay.op.debug")
    return program


_DEBUG: Final = register_op(
    "debug",
    arguments=("program",),
    attrs_type=DebugAttrs,
    relation=identity_relation,
    compute=_debug,
    level=1,
    description="The value; a function is called with it.",
    # Not so in TVM, where FoldConstant would call the function, and DeadCodeElimination drop the call.
    stateful=True,
)


def debug(expr: Expr, debug_func: Callable[[Value], object] | None = None) -> Call:
    """Return the value of an expression; the evaluation calls `debug_func` with it.

    As in TVM, the function is registered for the rest of the process, as `debugger_func0`, `debugger_func1` and so on.
    Without a function, the value is printed, where TVM starts a debugger. TVM calls the function with the state of its
    interpreter.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.ir.expr import const
    >>> seen = []
    >>> evaluate(debug(const(2), seen.append)), seen
    (array(2, dtype=int32), [array(2, dtype=int32)])
    """
    if debug_func is None:
        return Call(_DEBUG, (expr,), DebugAttrs())
    name = f"debugger_func{len(_functions)}"
    _functions[name] = debug_func
    return Call(_DEBUG, (expr,), DebugAttrs(debug_func=name))
