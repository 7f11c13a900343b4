"""Transposes the weights of `nn.dense` ahead of time."""

from collections.abc import MutableMapping
from typing import TypeVar

import numpy as np

from apass.relay.analysis.queries import search_fc_transpose
from apass.relay.ir.expr import Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array, NDArray
from apass.relay.transform.dead_code_elimination import eliminate_dead_code
from apass.relay.transform.simplify_fc_transpose import simplify_fc_transpose
from apass.relay.type_inference.infer import infer_module

__all__ = ["convert"]

ParamsT = TypeVar("ParamsT", bound=MutableMapping[str, Array])


def convert(func: Expr, params: ParamsT) -> tuple[Expr, ParamsT]:
    """Transpose weights of `nn.dense` now instead of in the program.

    `nn.dense(x, transpose(w))` becomes `nn.dense(x, w.T)`. The source is TVM's
    `relay.data_dep_optimization.simplify_fc_transpose`.

    Parameters:
        func: the function, or an expression.
        params: the values of parameters by name. The entry `w` of a transposed weight becomes an entry `w.T`. An entry
            stays if the new function still has its parameter.

    Returns:
        The new function, typed, and `params` itself.

    Raises:
        KeyError: if `params` lacks a transposed weight; it is then unchanged.
        TypeInferenceError: if the function is ill-typed.

    """
    before = infer_module(IRModule.from_expr(func))
    inputs = {param.name_hint for param in before["main"].params}
    names = [name for name in search_fc_transpose(func) if name in inputs]
    missing = [name for name in names if name not in params]
    if missing:
        raise KeyError(f"params has no entry for the weights {', '.join(missing)}, which nn.dense uses transposed")
    after = simplify_fc_transpose(eliminate_dead_code(before["main"]), names)
    main = infer_module(IRModule.from_expr(after))["main"]
    remaining = {param.name_hint for param in main.params}
    for name in names:
        params[f"{name}.T"] = NDArray.of(np.transpose(params[name]))
        if name not in remaining:
            del params[name]
    return (main if isinstance(func, Function) else main.body), params
