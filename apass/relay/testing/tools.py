"""What tests of passes share: a pass run on an expression, operators counted, random numbers."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import numpy as np

from apass.relay.expr import Call, Expr, Op
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.post_order import post_order
from apass.relay.prelude import Prelude
from apass.relay.type_inference.infer import infer_module

__all__ = ["count_ops", "rand", "run_infer_type", "run_opt_pass", "set_pass_runner"]

Work: TypeAlias = Callable[[IRModule], IRModule | Awaitable[IRModule]]
"""A pass, or a function from module to module."""

_runner: list[Callable[[Work, IRModule], IRModule]] = []


def set_pass_runner(run: Callable[[Work, IRModule], IRModule]) -> None:
    """Run passes with `run`: how the runner, a layer above, makes itself known."""
    _runner[:] = [run]


def run_opt_pass(expr: Expr, opt_pass: Work, import_prelude: bool = False) -> Expr:
    """Return what a pass makes of an expression, which is typed first and made the main of a module.

    `opt_pass` is a pass, or a plain function from module to module. With `import_prelude` the module has what
    `relay.Prelude` adds.

    Raises:
        RuntimeError: if it is a pass, and an event loop is running: await it there.

    """
    mod = IRModule.from_expr(expr)
    if import_prelude:
        Prelude(mod)
    run = _runner[0] if _runner else _call
    mod = run(opt_pass, infer_module(mod))
    entry = mod["main"]
    return entry.body if isinstance(entry, Function) and not isinstance(expr, Function) else entry


def _call(opt_pass: Work, mod: IRModule) -> IRModule:
    made = opt_pass(mod)
    if isinstance(made, IRModule):
        return made
    raise TypeError(f"{opt_pass!r} returned {made!r}, and no module; import apass.relay.transform to have passes run")


def run_infer_type(expr: Expr) -> Expr:
    """Return an expression with types.

    Raises:
        TypeInferenceError: if it has none.

    """
    return run_opt_pass(expr, infer_module)


def count_ops(expr: Expr) -> Counter[str]:
    """Return how often each operator is called."""
    calls = (node for node in post_order(expr) if isinstance(node, Call))
    return Counter(node.op.name for node in calls if isinstance(node.op, Op))


def rand(dtype: str, *shape: int) -> NDArray:
    """Return random numbers from 0 to 1."""
    return NDArray.of(np.random.default_rng().random(shape).astype(dtype))
