"""`evaluate`: runs programs on numpy."""

from apass.errors import did_you_mean
from apass.relay.errors import EvaluationError
from apass.relay.interpreter.machine import Program
from apass.relay.interpreter.values import FunctionValue, Value
from apass.relay.ir.expr import Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.variables import free_vars

__all__ = ["FunctionValue", "Value", "evaluate", "named_args"]


def evaluate(program: IRModule | Expr, /, *args: object, mod: IRModule | None = None, **params: object) -> Value:
    """Return the value of an expression, of a function call, or of `main` of a module.

    Arguments are arrays, Python numbers, or tuples of these. The parameters of an expression that is not a function are
    its free variables. A function that has parameters but no arguments evaluates to a callable value.

    Evaluation is eager and from left to right. A callee is evaluated after the arguments. The semantics is that of the
    A-normal form:

    - A shared expression is evaluated once, before its first use, in the innermost function body, branch or clause that
      contains all uses.
    - Only the chosen branch of an If is evaluated.

    Recursion depth is limited by memory only. A tail call does not increase the depth.

    Parameters:
        program: the program to evaluate.
        args: the arguments, in the order of the parameters.
        mod: the module with the functions that an expression calls.
        params: the remaining arguments by parameter name.

    Raises:
        EvaluationError: if the arguments do not match the parameters, or an expression has no value: a free variable, a
            match in which no clause matches, an operator whose kernel is missing or fails.

    >>> from apass.relay.ir.expr import const
    >>> from apass.relay.op.elementwise.arithmetic import add
    >>> evaluate(add(const(1), const(2)))
    array(3, dtype=int32)
    """
    if isinstance(program, IRModule):
        closure = Program(program).function("main")
    else:
        func = program if isinstance(program, Function) else _function(program, bool(args or params))
        closure = Program(mod).closure(func)
    if isinstance(program, Function) and program.params and not args and not params:
        return closure
    return closure(*args, *named_args(closure.func, len(args), params))


def _function(expr: Expr, has_arguments: bool) -> Function:
    return Function(free_vars(expr) if has_arguments else (), expr)


def named_args(func: Function, positional: int, params: dict[str, object]) -> list[object]:
    """Return the arguments for the parameters after the first `positional` ones."""
    names = [param.name_hint for param in func.params]
    rest = names[positional:]
    for name in params:
        if rest.count(name) != 1:
            if name not in names:
                raise EvaluationError(f"{name!r} is not a remaining parameter{did_you_mean(name, rest)}")
            raise EvaluationError(f"{name!r} has a positional argument too, or is the name of several parameters")
    missing = [name for name in rest if name not in params]
    if missing:
        raise EvaluationError(f"no argument for {', '.join(missing)}; the parameters are ({', '.join(names)})")
    return [params[name] for name in rest]
