"""Expression visitors and mutators: the names of TVM's `relay.expr_functor`."""

from apass.relay.visitors.expr_functor import ExprFunctor, ExprMutator, ExprVisitor

__all__ = ["ExprFunctor", "ExprMutator", "ExprVisitor"]
