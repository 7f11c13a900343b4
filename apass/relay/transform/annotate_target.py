"""AnnotateTarget: mark the operators that other compilers support.

The counterpart of TVM's `annotate_target.cc`.

Each operand of an operator gets a mark `compiler_begin`, and each use of its result a mark `compiler_end`. Operators
that no compiler supports are marked for the compiler `default`, which is Relay's own. MergeCompilerRegions then removes
the marks within regions, and PartitionGraph lifts the regions to functions.

Two results differ from TVM's, which PartitionGraph could not process:

- An empty tuple has no operands, so it stays unmarked.
- If an operator marked for `default` is marked for a compiler in a later run, so are the marks on its results.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.ir.expr import (
    OP_ATTRS,
    Call,
    Expr,
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
from apass.relay.ir.module import IRModule
from apass.relay.op.annotation import COMPILER_BEGIN, COMPILER_END, compiler_begin, compiler_end, compiler_of
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.merge_composite import COMPOSITE
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_rewriter import ExprRewriter, rewrite

__all__ = ["DEFAULT_COMPILER", "AnnotateTarget", "annotate_target"]

DEFAULT_COMPILER: Final = "default"
"""The compiler of the operators that no other compiler supports."""


def annotate_target(func: Function, targets: str | Iterable[str], include_non_call_ops: bool = True) -> Function:
    """Return the function with marks around operators that compilers support.

    A compiler supports a call of an operator if the operator's attribute `target.<compiler>` is a function that returns
    true for the call. It supports a call of a composite function if the function's attribute `Composite` starts with
    the name of the compiler and a dot. The first such compiler of `targets` gets the call.

    Marks of an earlier run stay, except those for `default`.

    Parameters:
        func: the function, typed if the compilers' functions read types.
        targets: the name of a compiler, or names in order of preference.
        include_non_call_ops: whether to mark tuples, their fields and cells, too. They get the compiler of all their
            operands, or `default` if these differ.

    """
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    marked = rewrite(func, _Annotator(names) if include_non_call_ops else _CallAnnotator(names))
    assert isinstance(marked, Function), "the rewriter returns a function for a function"
    return marked


@provide_pass("AnnotateTarget")
def AnnotateTarget(targets: str | list[str], include_non_call_ops: bool = True) -> FunctionPass[IRModule, Function]:
    """Mark operators that the given compilers support, for PartitionGraph."""
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    if not all(isinstance(name, str) for name in names):
        error = PassDefinitionError(f"targets must be the names of compilers, got {targets!r}")
        error.option = "targets"
        raise error

    def annotate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return annotate_target(ensure_typed(func, mod), names, include_non_call_ops)

    # Not cacheable: the result also depends on the attributes of operators, which users register.
    return function_pass(annotate, opt_level=0, name="AnnotateTarget", required=["InferType"], cacheable=False)


class _Annotator(ExprRewriter):
    """Marks all operations."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = targets
        self._target_of: dict[Expr, str] = {}

    def rewrite_call(self, pre: Call, post: Expr) -> Expr:
        assert isinstance(post, Call), "no other rule replaces a call"
        if compiler_of(pre, COMPILER_BEGIN) is not None:
            return post  # the operator that uses it replaces it
        compiler = compiler_of(pre, COMPILER_END)
        if compiler is not None:
            target = self._target_of.setdefault(post.args[0], compiler)
            return post if target == compiler else compiler_end(post.args[0], target)
        if pre.args and compiler_of(pre.args[0], COMPILER_BEGIN) not in {None, DEFAULT_COMPILER}:
            return post  # marked by an earlier run
        if isinstance(pre.op, Var):
            return self._rewrite_var_call(pre, post)
        return self._marked_call(pre, post)

    def rewrite_tuple(self, pre: Tuple, post: Expr) -> Expr:
        assert isinstance(post, Tuple), "no other rule replaces a tuple"
        if not post.fields:
            return post
        target, fields = self._marked(post.fields)
        return self._noted(Tuple(fields, span=post.span), target)

    def rewrite_tuple_getitem(self, pre: TupleGetItem, post: Expr) -> Expr:
        assert isinstance(post, TupleGetItem), "no other rule replaces a field"
        target, (value,) = self._marked([post.tuple_value])
        return self._noted(TupleGetItem(value, post.index, span=post.span), target)

    def rewrite_function(self, pre: Function, post: Expr) -> Expr:
        assert isinstance(post, Function), "no other rule replaces a function"
        if COMPOSITE in pre.attrs:
            return pre
        parts = (post.ret_type, post.type_params, post.attrs)
        return Function(post.params, self._ended(post.body), *parts, span=post.span)

    def rewrite_let(self, pre: Let, post: Expr) -> Expr:
        assert isinstance(post, Let), "no other rule replaces a Let"
        value = post.value if isinstance(post.value, Function) else self._marked([post.value])[1][0]
        return Let(post.var, value, self._ended(post.body), span=post.span)

    def rewrite_if(self, pre: If, post: Expr) -> Expr:
        cond, true, false = map(self._ended, post.children)
        return If(cond, true, false, span=post.span)

    def rewrite_ref_create(self, pre: RefCreate, post: Expr) -> Expr:
        target, (value,) = self._marked(post.children)
        return self._noted(RefCreate(value, span=post.span), target)

    def rewrite_ref_read(self, pre: RefRead, post: Expr) -> Expr:
        target, (ref,) = self._marked(post.children)
        return self._noted(RefRead(ref, span=post.span), target)

    def rewrite_ref_write(self, pre: RefWrite, post: Expr) -> Expr:
        target, (ref, value) = self._marked(post.children)
        return self._noted(RefWrite(ref, value, span=post.span), target)

    def _rewrite_var_call(self, pre: Call, post: Call) -> Expr:
        return self._marked_call(pre, post)

    def _marked_call(self, pre: Call, post: Call) -> Expr:
        target, args = self._marked(post.args, self._first_supporting(pre))
        return self._noted(Call(post.op, args, post.attrs, span=post.span), target)

    def _noted(self, expr: Expr, target: str) -> Expr:
        self._target_of[expr] = target
        return expr

    def _first_supporting(self, call: Call) -> str:
        """Return the first of the compilers that supports a call."""
        supporting: Iterable[str] = ()
        if isinstance(call.op, Op):
            supporting = (target for target in self._targets if _supports(target, call.op, call))
        elif isinstance(call.op, Function):
            prefix, dot, _ = str(call.op.attrs.get(COMPOSITE, "")).partition(".")
            supporting = (target for target in self._targets if dot and target == prefix)
        return next(iter(supporting), DEFAULT_COMPILER)

    def _marked(self, operands: Iterable[Expr], target: str = "") -> tuple[str, list[Expr]]:
        """Return a compiler and the operands, marked as its inputs.

        The compiler is `target`, or without it that of all operands.
        """
        plain: list[tuple[Expr, bool]] = []
        sources: set[str] = set()
        for operand in operands:
            begin = compiler_of(operand, COMPILER_BEGIN)
            if begin is not None and isinstance(operand, Call):
                inner = operand.args[0]
                plain.append((inner, False) if begin == DEFAULT_COMPILER else (operand, True))
                sources.add(compiler_of(inner, COMPILER_END) or DEFAULT_COMPILER)
            else:
                plain.append((self._ended(operand), False))
                sources.add(self._target_of.get(operand, DEFAULT_COMPILER))
        shared = sources.pop() if len(sources) == 1 else DEFAULT_COMPILER
        target = target or shared
        return target, [operand if is_marked else compiler_begin(operand, target) for operand, is_marked in plain]

    def _ended(self, expr: Expr) -> Expr:
        """Return the expression, marked as an output if it is in a region."""
        target = self._target_of.get(expr)
        # A call without operands, such as `zeros`, is in no region, as nothing marks its begin.
        if target is None or (isinstance(expr, Call) and not expr.args):
            return expr
        return compiler_end(expr, target)


class _CallAnnotator(_Annotator):
    """Marks calls alone. Other operations use the results of regions."""

    def _rewrite_var_call(self, pre: Call, post: Call) -> Expr:
        return Call(post.op, map(self._ended, post.args), post.attrs, span=post.span)

    def rewrite_tuple(self, pre: Tuple, post: Expr) -> Expr:
        return Tuple(map(self._ended, post.children), span=post.span)

    def rewrite_tuple_getitem(self, pre: TupleGetItem, post: Expr) -> Expr:
        return TupleGetItem(self._ended(post.children[0]), pre.index, span=post.span)

    def rewrite_ref_create(self, pre: RefCreate, post: Expr) -> Expr:
        return RefCreate(self._ended(post.children[0]), span=post.span)

    def rewrite_ref_read(self, pre: RefRead, post: Expr) -> Expr:
        return RefRead(self._ended(post.children[0]), span=post.span)

    def rewrite_ref_write(self, pre: RefWrite, post: Expr) -> Expr:
        ref, value = map(self._ended, post.children)
        return RefWrite(ref, value, span=post.span)


def _supports(target: str, op: Op, call: Call) -> bool:
    """Return whether the operator's attribute for a compiler accepts a call."""
    _, check = OP_ATTRS.get(f"target.{target}", {}).get(op.name, (0, None))
    return callable(check) and bool(check(call))
