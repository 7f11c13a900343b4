"""`evaluate`: what a program computes, on numpy; for tests, for constant folding, and for checking passes."""

from apass.errors import did_you_mean
from apass.relay.errors import EvaluationError
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.interpreter.machine import Program
from apass.relay.interpreter.values import FunctionValue, Value
from apass.relay.ir.module import IRModule
from apass.relay.ir.variables import free_vars

__all__ = ["FunctionValue", "Value", "evaluate"]


def evaluate(program: IRModule | Expr, /, *args: object, mod: IRModule | None = None, **params: object) -> Value:
    """Return the value of `main` of a module, of a call of a function, or of an expression.

    Arguments are arrays, Python's numbers, or tuples of these; those that come by name follow those that do not. The
    free variables of an expression that is no function are its parameters. A function that has parameters and is
    given no argument is itself the value: something to call.

    Evaluation is eager and goes from left to right; what is called comes after the arguments. An expression that is
    used twice is evaluated once, in the innermost function body, branch or clause that contains every use of it, just
    before what first needs it there: the meaning is that of the A-normal form. Of the branches of an If only the one
    that is chosen is evaluated. Depth is bounded by memory alone; a call in the last place of a function adds none.

    Parameters:
        program: what to evaluate.
        args: the arguments, in the order of the parameters.
        mod: the module that has the functions that an expression calls.
        params: arguments by the names of the parameters.

    Raises:
        EvaluationError: if the arguments do not fit, or something has no value: a free variable, a match without a
            clause, an operator whose kernel is missing or fails.

    >>> from apass.relay.make import const
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
    return closure(*args, *_named_args(closure.func, len(args), params))


def _function(expr: Expr, has_arguments: bool) -> Function:
    return Function(free_vars(expr) if has_arguments else (), expr)


def _named_args(func: Function, given: int, params: dict[str, object]) -> list[object]:
    """Return the arguments for the parameters after those that were given by place."""
    names = [one.name_hint for one in func.params]
    rest = names[given:]
    for name in params:
        if rest.count(name) != 1:
            fault = did_you_mean(name, rest) if name not in names else "; it was given twice, or several have the name"
            raise EvaluationError(f"{name!r} names none of the parameters that are left{fault}")
    missing = [name for name in rest if name not in params]
    if missing:
        raise EvaluationError(f"no argument for {', '.join(missing)}; the parameters are ({', '.join(names)})")
    return [params[name] for name in rest]
