"""Helpers for tests of passes: run a pass, count operators, make random numbers."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import numpy as np

from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.post_order import post_order
from apass.relay.prelude import Prelude
from apass.relay.type_inference.infer import infer_module

__all__ = ["count_ops", "rand", "run_infer_type", "run_opt_pass", "set_pass_runner"]

ModuleTransform: TypeAlias = Callable[[IRModule], IRModule | Awaitable[IRModule]]
"""A pass, or a function from module to module."""

_runner: list[Callable[[ModuleTransform, IRModule], IRModule]] = []


def set_pass_runner(run: Callable[[ModuleTransform, IRModule], IRModule]) -> None:
    """Run passes with `run`; the pass runner, a higher layer, registers itself here."""
    _runner[:] = [run]


def run_opt_pass(expr: Expr, opt_pass: ModuleTransform, import_prelude: bool = False) -> Expr:
    """Return an expression after a pass.

    The expression is typed first and becomes the `main` of a module.

    Parameters:
        expr: the expression.
        opt_pass: a pass, or a plain function from module to module.
        import_prelude: whether the module has the definitions of `relay.Prelude`.

    Raises:
        RuntimeError: if `opt_pass` is a pass and an event loop is running; there, await the pass instead.

    """
    mod = IRModule.from_expr(expr)
    if import_prelude:
        Prelude(mod)
    run = _runner[0] if _runner else _call
    mod = run(opt_pass, infer_module(mod))
    entry = mod["main"]
    return entry.body if isinstance(entry, Function) and not isinstance(expr, Function) else entry


def _call(opt_pass: ModuleTransform, mod: IRModule) -> IRModule:
    result = opt_pass(mod)
    if isinstance(result, IRModule):
        return result
    raise TypeError(
        f"{opt_pass!r} must return an IRModule, got {result!r}; to run passes, import apass.relay.transform first"
    )


def run_infer_type(expr: Expr) -> Expr:
    """Return a typed copy of an expression.

    Raises:
        TypeInferenceError: if type inference fails.

    """
    return run_opt_pass(expr, infer_module)


def count_ops(expr: Expr) -> Counter[str]:
    """Return the number of calls of each operator."""
    calls = (node for node in post_order(expr) if isinstance(node, Call))
    return Counter(node.op.name for node in calls if isinstance(node.op, Op))


def rand(dtype: str, *shape: int) -> NDArray:
    """Return random numbers in [0, 1) of an element type and a shape."""
    return NDArray.of(np.random.default_rng().random(shape).astype(dtype))
