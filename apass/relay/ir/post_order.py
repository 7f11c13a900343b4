"""`post_order`: iterates over the subexpressions of an expression in post-order."""

from collections.abc import Callable, Iterator

from apass.relay.ir.expr import Expr

__all__ = ["post_order"]


def post_order(expr: Expr, skip: Callable[[Expr], bool] | None = None) -> Iterator[Expr]:
    """Iterate over `expr` and its subexpressions in post-order, without recursion.

    Children are yielded before their parent, from left to right. A shared node is yielded once, at its first
    occurrence. Nodes for which `skip` is true are yielded but not entered.
    """
    done: set[Expr] = set()
    stack: list[Expr | None] = [expr]  # None: all children of the last of `entered` have been yielded
    entered: list[Expr] = []
    while stack:
        node = stack.pop()
        if node is None:
            node = entered.pop()
        elif node in done:
            continue
        elif (children := node.children) and (skip is None or not skip(node)):
            entered.append(node)
            stack.append(None)
            stack += children[::-1]
            continue
        done.add(node)
        yield node
