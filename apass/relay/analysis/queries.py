"""`check_basic_block_normal_form`: whether whatever several blocks use has a variable."""

from apass.relay.expr import Expr
from apass.relay.rewrite.let_binding import LetBinder

__all__ = ["check_basic_block_normal_form"]


def check_basic_block_normal_form(expr: Expr) -> bool:
    """Tell whether nothing in an expression must be bound for it to be in basic block normal form."""
    return not LetBinder(expr, has_let_scopes=True).lifted()
