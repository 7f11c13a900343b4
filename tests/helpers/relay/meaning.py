"""Checks that a pass keeps the meaning of a program, on random arguments."""

import numpy as np

from apass import get_pass, run
from apass.relay.expr import Call, Expr, Op
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.type_inference.infer import infer_module

__all__ = ["ops_of", "optimized", "typed"]


def typed(expr: Expr) -> IRModule:
    """Return the typed module of a function, or of an expression.

    The free variables of an expression become parameters.
    """
    return infer_module(IRModule.from_expr(expr))


def optimized(expr: Expr, name: str, **options: object) -> Function:
    """Return the typed `main` after a pass; assert that its meaning is unchanged."""
    before = typed(expr)
    after = infer_module(run(get_pass(name, **options), before))
    for seed in (0, 1):
        arguments = random_arguments(before["main"], seed)
        with np.errstate(all="ignore"):
            assert difference(evaluate(before, *arguments), evaluate(after, *arguments)) == ""
    return after["main"]


def ops_of(expr: Expr) -> list[str]:
    """Return the names of the called operators, in post order."""
    calls = (node for node in post_order(expr) if isinstance(node, Call))
    return [call.op.name for call in calls if isinstance(call.op, Op)]
