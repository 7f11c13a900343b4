"""`post_order`: every expression below one, each once, what is below a node before the node."""

from collections.abc import Callable, Iterator

from apass.relay.expr import Expr

__all__ = ["post_order"]


def post_order(expr: Expr, skip: Callable[[Expr], bool] | None = None) -> Iterator[Expr]:
    """Go over `expr` and all below it, without recursion; nothing below what `skip` tells, which itself is gone over.

    What is below comes before, from left to right; a shared node comes once, where it is met first.
    """
    done: set[Expr] = set()
    work: list[Expr | None] = [expr]  # None: all below the last of `waiting` has been gone over
    waiting: list[Expr] = []
    while work:
        node = work.pop()
        if node is None:
            node = waiting.pop()
        elif node in done:
            continue
        elif (below := node.children) and (skip is None or not skip(node)):
            waiting.append(node)
            work.append(None)
            work += below[::-1]
            continue
        done.add(node)
        yield node
