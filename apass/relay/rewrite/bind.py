"""`bind` and `bind_params_by_name`: replace variables by expressions."""

from collections.abc import Mapping

import numpy.typing as npt

from apass.relay.ir.expr import Constant, Expr, Var
from apass.relay.ir.function import Function
from apass.relay.ir.variables import bound_vars, free_vars
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["bind", "bind_params_by_name", "substitute"]


def bind(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """Return an expression with variables replaced; the same object if unchanged.

    Bound parameters of a function are removed. A parameter that is bound to a variable is replaced by it. Free
    variables of the new expressions become parameters of the function.

    Raises:
        ValueError: if a variable is bound within the expression by a Let, a pattern or a function.

    >>> from apass.relay.ir.expr import const, var
    >>> from apass.relay.expr import Tuple
    >>> x, y = var("x"), var("y")
    >>> bind(Function([x, y], Tuple([x, y])), {x: const(1)}).params
    (<relay.Var %y>,)
    """
    changes = {old: new for old, new in binds.items() if old is not new}
    if not changes:
        return expr
    if isinstance(expr, Function):
        return _bind_function(expr, changes)
    return substitute(expr, changes)


def bind_params_by_name(func: Function, params: Mapping[str, npt.ArrayLike | Constant]) -> Function:
    """Return a function with some parameters replaced by constants.

    Names that are not those of parameters are ignored.

    `params` maps the names of parameters to their values.

    Raises:
        ValueError: if several parameters have the same given name.

    """
    named: dict[str, list[Var]] = {}
    for param in func.params:
        named.setdefault(param.name_hint, []).append(param)
    repeated = [name for name in params if len(named.get(name, ())) > 1]
    if repeated:
        raise ValueError(f"several parameters of the function are named {', '.join(repeated)}; use bind() instead")
    binds = {
        named[name][0]: (value if isinstance(value, Constant) else Constant(value))
        for name, value in params.items()
        if name in named
    }
    return _bind_function(func, binds) if binds else func


def _bind_function(func: Function, binds: Mapping[Var, Expr]) -> Function:
    body = substitute(func.body, binds)
    values = [binds.get(param, param) for param in func.params]
    if body is func.body and all(value is param for value, param in zip(values, func.params, strict=True)):
        return func
    params = list(dict.fromkeys(value for value in values if isinstance(value, Var)))
    parts = (func.ret_type, func.type_params, func.attrs)
    # The variables that were free before stay free. Only those that came in with the values become parameters.
    excluded = {*params, *free_vars(func)}
    params += [var for var in free_vars(body) if var not in excluded]
    return Function(params, body, *parts, span=func.span)


def substitute(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """Return an expression with variables replaced by expressions.

    The parameters of a function are kept.

    Raises:
        ValueError: if a variable is bound within the expression.

    """
    bound = [var for var in bound_vars(expr) if var in binds]
    if bound:
        names = ", ".join(f"%{var.name_hint}" for var in bound)
        raise ValueError(f"cannot bind {names}: bound already by a Let, a pattern or a function within the expression")
    mutator = ExprMutator()
    mutator.memo_map.update(binds.items())
    return mutator.visit(expr)
