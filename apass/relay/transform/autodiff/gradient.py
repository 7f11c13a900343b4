"""`gradient`: TVM's function for automatic differentiation."""

import warnings
from typing import Final, cast

from apass.relay.ir.expr import Expr, GlobalVar
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.transform.autodiff.first_order import first_order_gradient
from apass.relay.transform.autodiff.higher_order import higher_order_gradient

__all__ = ["gradient"]

_MODES: Final = ("first_order", "higher_order")


def gradient(expr: Expr, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """Return a function that computes the result of another, and its gradients.

    The result is `(result, (gradient of parameter 1, ...))`. The gradients are those of the sum of all elements of the
    result. The new function is typed.

    Parameters:
        expr: a function, or the global variable of a function of the module. Its parameters are tensors.
        mod: the functions and data types that `expr` uses. In mode `higher_order`, the functions that it calls get
            counterparts with the suffix `_grad`, which are added in place, as in TVM.
        mode: `higher_order` for any program; the result uses references and closures. `first_order` for programs of
            operators and tuples alone. The mode is deprecated, as in TVM: run the pass `FirstOrderGradient` instead.

    Raises:
        OpNotImplementedError: if operators have no gradient. The message names all of them.
        RuntimeError: if a module is passed in mode `first_order`.
        TypeError: if `expr` is neither a function nor a global variable, or `mod` is not a module.
        TypeInferenceError: if the program is ill-typed.
        ValueError: if the mode is unknown, or the function has no gradient in that mode.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.ir.expr import Call, If, const, var
    >>> x = var("x", shape=())
    >>> func = Function([x], If(x > const(0.0), x * x, x))
    >>> value, (slope,) = evaluate(Call(gradient(func), [const(3.0)]))
    >>> print(value, slope)
    9.0 6.0
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    # Callers without a type checker pass the mode in this position.
    if not isinstance(cast("object", mod), IRModule | None):
        raise TypeError(f"mod must be an IRModule or None, got {mod!r}")
    if mode == "first_order" and mod is not None:
        raise RuntimeError("mode first_order takes no module; run the pass FirstOrderGradient on the module instead")
    func = _function_of(expr, mod)
    if mode == "higher_order":
        return higher_order_gradient(func, mod)
    message = "gradient(mode='first_order') is deprecated; run the pass FirstOrderGradient instead"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return first_order_gradient(func)


def _function_of(expr: Expr, mod: IRModule | None) -> Function:
    if isinstance(expr, GlobalVar):
        if mod is None:
            raise ValueError(f"the gradient of @{expr.name_hint} requires the module that defines it; pass mod")
        return mod[expr]
    if not isinstance(expr, Function):
        raise TypeError(f"the gradient is that of a function or of a global variable, got {expr!r}")
    return expr
