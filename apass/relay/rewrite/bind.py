"""`bind` and `bind_params_by_name`: expressions in the places of variables."""

from collections.abc import Mapping

import numpy.typing as npt

from apass.relay.expr import Constant, Expr, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.variables import bound_vars, free_vars

__all__ = ["bind", "bind_params_by_name", "substitute"]


def bind(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """Return an expression with expressions in the places of variables; the same object if it has none of them.

    Parameters of a function that are bound go; those that are bound to a variable become it. Variables that come in
    with the expressions become parameters of the function as well.

    Raises:
        ValueError: if a variable is bound within by a Let, a pattern or an inner function.

    >>> from apass.relay.make import const, var
    >>> from apass.relay.expr import Tuple
    >>> x, y = var("x"), var("y")
    >>> bind(Function([x, y], Tuple([x, y])), {x: const(1)}).params
    (<relay.Var %y>,)
    """
    wanted = {old: new for old, new in binds.items() if old is not new}
    if not wanted:
        return expr
    if isinstance(expr, Function):
        return _bind_function(expr, wanted)
    return substitute(expr, wanted)


def bind_params_by_name(func: Function, params: Mapping[str, npt.ArrayLike | Constant]) -> Function:
    """Return a function with constants in the places of the parameters of those names; other names are let be.

    Raises:
        ValueError: if several parameters have one of the names.

    """
    named: dict[str, list[Var]] = {}
    for param in func.params:
        named.setdefault(param.name_hint, []).append(param)
    repeated = [name for name in params if len(named.get(name, ())) > 1]
    if repeated:
        raise ValueError(f"several parameters of the function are named {', '.join(repeated)}; bind them with bind()")
    binds = {named[name][0]: _constant(value) for name, value in params.items() if name in named}
    return _bind_function(func, binds) if binds else func


def _constant(value: npt.ArrayLike | Constant) -> Constant:
    return value if isinstance(value, Constant) else Constant(value)


def _bind_function(func: Function, binds: Mapping[Var, Expr]) -> Function:
    body = substitute(func.body, binds)
    kept = [binds.get(param, param) for param in func.params]
    if body is func.body and all(one is param for one, param in zip(kept, func.params, strict=True)):
        return func
    params = list(dict.fromkeys(one for one in kept if isinstance(one, Var)))
    parts = (func.ret_type, func.type_params, func.attrs)
    known = {*params, *free_vars(func)}
    params += [var for var in free_vars(body) if var not in known]
    return Function(params, body, *parts, span=func.span)


def substitute(expr: Expr, binds: Mapping[Var, Expr]) -> Expr:
    """Return an expression with expressions in the places of variables; of a function too, the parameters stay.

    Raises:
        ValueError: if a variable is bound within.

    """
    inner = [var for var in bound_vars(expr) if var in binds]
    if inner:
        names = ", ".join(f"%{var.name_hint}" for var in inner)
        raise ValueError(f"{names} cannot be bound: a Let, a pattern or a function within binds it already")
    mutator = ExprMutator()
    mutator.memo_map.update(binds.items())
    return mutator.visit(expr)
