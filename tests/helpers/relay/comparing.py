"""Helpers for tests of structural equality: checked comparison, deep programs."""

import numpy as np
import pytest

from apass.relay.expr import Call, Constant, Expr, GlobalVar, Let, Op, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.ir.expr import const
from apass.relay.structural.equality import assert_structural_equal, structural_equal, structural_hash
from apass.relay.ty import TensorType

__all__ = ["FLOAT", "OP", "Copier", "F", "chain", "equal", "lets"]

F = GlobalVar("f")
OP = Op(name="test.structural")
FLOAT = TensorType((2,), "float32")


class Copier(ExprMutator):
    """Replaces every variable and every constant by a new object."""

    def visit_var(self, var: Var) -> Expr:
        return Var(f"new_{var.name_hint}", var.type_annotation)

    def visit_constant(self, const: Constant) -> Expr:
        return Constant(np.array(const.data))


def equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """Compare in both directions; assert that hashes and the assertion agree."""
    result = structural_equal(lhs, rhs, map_free_vars)
    assert structural_equal(rhs, lhs, map_free_vars) == result
    assert (structural_hash(lhs, map_free_vars) == structural_hash(rhs, map_free_vars)) == result
    if result:
        assert_structural_equal(lhs, rhs, map_free_vars)
        return True
    with pytest.raises(ValueError, match="not structurally equal"):
        assert_structural_equal(lhs, rhs, map_free_vars)
    return False


def chain(length: int, leaf: Expr) -> Expr:
    """Return calls nested to the given depth."""
    expr = leaf
    for _ in range(length):
        expr = Call(OP, (expr,))
    return expr


def lets(length: int) -> Expr:
    """Return nested Lets, each bound to a call on the previous variable."""
    names = [Var(f"v{i}") for i in range(length)]
    expr: Expr = names[-1]
    for var, before in zip(reversed(names), [*reversed(names[:-1]), const(1)], strict=True):
        expr = Let(var, Call(OP, (before,)), expr)
    return expr
