"""`check_constant`: whether an expression is known without evaluating anything."""

from apass.relay.expr import Constant, Expr, Tuple
from apass.relay.ir.post_order import post_order

__all__ = ["check_constant"]


def check_constant(expr: Expr) -> bool:
    """Tell whether an expression is a constant, or a tuple whose fields all are.

    >>> from apass.relay.make import const, var
    >>> check_constant(Tuple([const(1), Tuple([])])), check_constant(Tuple([const(1), var("x")]))
    (True, False)
    """
    known: set[Expr] = set()
    for node in post_order(expr):
        if isinstance(node, Constant) or (isinstance(node, Tuple) and known.issuperset(node.fields)):
            known.add(node)
    return expr in known
