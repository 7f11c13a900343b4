"""`ExprRewriter`: rewrites bottom-up, with access to the old and the new node."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.expr import (
    Call,
    Constant,
    Expr,
    GlobalVar,
    If,
    Let,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from apass.relay.ir.function import Function
from apass.relay.visitors.expr_functor import METHODS, ExprMutator, check_methods

__all__ = ["ExprRewriter", "post_order_rewrite", "rewrite"]

_REWRITES: Final[Mapping[type[Expr], str]] = {
    kind: name.replace("visit_", "rewrite_", 1) for kind, name in METHODS.items()
}


class ExprRewriter:
    """Rewrite rules for nodes, in methods such as `rewrite_call(self, pre, post)`.

    `pre` is the original node. `post` is the node with rewritten children, or `pre` itself if no child has changed. The
    methods need not visit the children, unlike those of ExprMutator. Apply a rewriter with `rewrite`.

    A subclass with an unknown method name that starts with `rewrite_` raises TypeError at class creation.

    >>> class AddToSubtract(ExprRewriter):
    ...     def rewrite_call(self, pre, post):
    ...         return Call(GlobalVar("sub"), post.args) if pre.op.name_hint == "add" else post
    >>> x = Var("x")
    >>> rewrite(Call(GlobalVar("add"), [x, x]), AddToSubtract()).op
    <relay.GlobalVar @sub>
    """

    _rewrites: ClassVar[Mapping[type[Expr], Callable[..., Expr]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Check the method names, and build the dispatch table."""
        super().__init_subclass__(**options)
        check_methods(cls, "rewrite_", _REWRITES.values())
        cls._rewrites = {kind: getattr(cls, name) for kind, name in _REWRITES.items()}

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        """Return the replacement of a node, from the method for the class of `pre`."""
        method = self._rewrites.get(type(pre))
        return post if method is None else method(self, pre, post)

    def rewrite_var(self, pre: Var, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_global_var(self, pre: GlobalVar, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_constant(self, pre: Constant, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_tuple(self, pre: Tuple, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_tuple_getitem(self, pre: TupleGetItem, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_let(self, pre: Let, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_if(self, pre: If, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_function(self, pre: Function, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_op(self, pre: Op, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_constructor(self, pre: Constructor, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_match(self, pre: Match, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_ref_create(self, pre: RefCreate, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_ref_read(self, pre: RefRead, post: Expr) -> Expr:
        """Return `post`."""
        return post

    def rewrite_ref_write(self, pre: RefWrite, post: Expr) -> Expr:
        """Return `post`."""
        return post


class _PostOrderRewriter(ExprMutator):
    """Mutator that applies an ExprRewriter to every node."""

    def __init__(self, rewriter: ExprRewriter) -> None:
        super().__init__()
        self._rewriter = rewriter

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo_map
        if expr not in memo:
            memo[expr] = self._rewriter.rewrite(expr, super().visit(expr))
        return memo[expr]


def rewrite(expr: Expr, rewriter: ExprRewriter) -> Expr:
    """Return a rewritten expression. Each node is rewritten once, in post-order.

    A node stays the same object if its children do not change and the rewriter returns `post`.
    """
    return _PostOrderRewriter(rewriter).visit(expr)


post_order_rewrite = rewrite
"""TVM's name for `rewrite`."""
