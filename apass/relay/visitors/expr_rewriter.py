"""`ExprRewriter`: rewriting an expression bottom up, with the node as it was and as it has become side by side."""

from collections.abc import Callable, Mapping
from typing import ClassVar, Final

from apass.relay.adt import Constructor, Match
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ref import RefCreate, RefRead, RefWrite
from apass.relay.visitors.expr_functor import METHODS, check_methods

__all__ = ["ExprRewriter", "post_order_rewrite", "rewrite"]

_REWRITES: Final[Mapping[type[Expr], str]] = {
    kind: name.replace("visit_", "rewrite_", 1) for kind, name in METHODS.items()
}


class ExprRewriter:
    """Says what becomes of each node: `rewrite_call(self, pre, post)` and the like, one method for each kind.

    `pre` is the node as it was; `post` the same node with all that is below it rewritten, or `pre` itself if nothing
    below has changed. Unlike an ExprMutator's, the methods have nothing to visit. Use it with `rewrite`.

    A method that starts with `rewrite_` and is none of the known ones is a TypeError when the class is created.

    >>> class AddToSubtract(ExprRewriter):
    ...     def rewrite_call(self, pre, post):
    ...         return Call(GlobalVar("sub"), post.args) if pre.op.name_hint == "add" else post
    >>> x = Var("x")
    >>> rewrite(Call(GlobalVar("add"), [x, x]), AddToSubtract()).op
    <relay.GlobalVar @sub>
    """

    _rewrites: ClassVar[Mapping[type[Expr], Callable[..., Expr]]] = {}

    def __init_subclass__(cls, **options: object) -> None:
        """Check the names of the methods."""
        super().__init_subclass__(**options)
        check_methods(cls, "rewrite_", _REWRITES.values())
        cls._rewrites = {kind: getattr(cls, name) for kind, name in _REWRITES.items()}

    def rewrite(self, pre: Expr, post: Expr) -> Expr:
        """Return what becomes of a node, by the method for the kind of `pre`."""
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
    """Asks an ExprRewriter about every node."""

    def __init__(self, rewriter: ExprRewriter) -> None:
        super().__init__()
        self._rewriter = rewriter

    def visit(self, expr: Expr) -> Expr:
        memo = self.memo_map
        if expr not in memo:
            memo[expr] = self._rewriter.rewrite(expr, super().visit(expr))
        return memo[expr]


def rewrite(expr: Expr, rewriter: ExprRewriter) -> Expr:
    """Return what becomes of an expression: each node is rewritten once, what is below it before.

    A node below which nothing changed, and for which the rewriter returns `post`, stays the same object.
    """
    return _PostOrderRewriter(rewriter).visit(expr)


post_order_rewrite = rewrite
"""TVM's name of `rewrite`."""
