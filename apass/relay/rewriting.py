"""`rewrite_function`: what an ExprMutator makes of a function, as the function that it must be."""

from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function

__all__ = ["rewrite_function"]


def rewrite_function(mutator: ExprMutator, func: Function) -> Function:
    """Return what the mutator makes of a function.

    Raises:
        TypeError: if that is no function.

    """
    made = mutator.visit(func)
    if not isinstance(made, Function):
        raise TypeError(f"{type(mutator).__name__} made {made!r} of a function; a function must stay one")
    return made
