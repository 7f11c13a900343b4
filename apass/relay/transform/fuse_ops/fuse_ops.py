"""FuseOps: operators that can be computed together become one primitive function; TVM's `fuse_ops.cc`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from apass.core.config import provide_config_option
from apass.core.context import PassContext
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.expr import Call, Constant, Expr, Op, Tuple, TupleGetItem, Var
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.rewriting import rewrite_function
from apass.relay.transform.fuse_ops.graph import PRIMITIVE, FusionGraph, stays
from apass.relay.transform.fuse_ops.groups import FusionGroups
from apass.relay.transform.support.decorators import function_pass
from apass.relay.transform.support.reporting import remark_on_fusing
from apass.relay.ty import TensorType, Type
from apass.relay.type_inference.infer import ensure_typed

__all__ = ["MAX_FUSED_OPS", "RESHAPE_ONLY", "FuseOps", "fuse_ops"]

RESHAPE_ONLY: Final = "relay.reshape_only"
"""The attribute of a primitive function that changes nothing but shapes; 1."""
MAX_FUSED_OPS: Final = 256
"""How many results one function computes at most, if the context does not say."""

_MAX_DEPTH: Final = "relay.FuseOps.max_depth"
_LINK_PARAMS: Final = "relay.FuseOps.link_params"
provide_config_option(_MAX_DEPTH, int, MAX_FUSED_OPS, "How many results a function that FuseOps makes has at most.")
provide_config_option(_LINK_PARAMS, bool, False, "Whether FuseOps keeps constants in the functions that use them.")

_RESHAPES: Final = frozenset({"contrib_reverse_reshape", "expand_dims", "nn.batch_flatten", "reshape", "squeeze"})


def fuse_ops(func: Function, opt_level: int = 2, max_depth: int = MAX_FUSED_OPS, link_params: bool = False) -> Function:
    """Return a typed function all of whose calls of operators are in primitive functions, which it calls.

    A primitive function takes what it needs as parameters `p0`, `p1`, ... Operators are put together as their
    `TOpPattern` allows, if nothing else uses what is between. Functions that are primitive already, or have a
    `Compiler`, stay as they are.

    Parameters:
        func: the function.
        opt_level: at 0 each operator is by itself.
        max_depth: how many results one function computes at most.
        link_params: whether constants stay in the functions that use them; else all but simple scalars are parameters.

    """
    return rewrite_function(_FuseMutator(func, opt_level, max_depth, link_params), func)


@provide_pass("FuseOps")
def FuseOps(fuse_opt_level: int = -1) -> FunctionPass[IRModule, Function]:
    """Put operators that can be computed together into primitive functions, at the level of the context if -1.

    The config option `relay.FuseOps.max_depth` says how many results one function computes at most.
    """

    def fuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        level = ctx.opt_level if fuse_opt_level == -1 else fuse_opt_level
        made = fuse_ops(ensure_typed(func, mod), level, int(ctx.config[_MAX_DEPTH]), bool(ctx.config[_LINK_PARAMS]))
        if ctx.hooks.remarks:
            remark_on_fusing(ctx, made)
        return made

    return function_pass(fuse, opt_level=0, name="FuseOps", required=["InferType"])


@dataclass(frozen=True, slots=True)
class _Signature:
    """The parameters of a function that is being made, by what is passed for them."""

    params: dict[Expr, Var] = field(default_factory=dict[Expr, Var])

    def param(self, arg: Expr, ty: Type) -> Var:
        """Return the parameter that an argument is passed for, a new one for a new argument."""
        if arg not in self.params:
            self.params[arg] = Var(f"p{len(self.params)}", ty)
        return self.params[arg]


class _FuseMutator(ExprMutator, scopes_first=True):
    """Makes the functions of the groups.

    What it makes of a result that is not the root of its group is the inside of a function, with its parameters.
    """

    def __init__(self, func: Function, opt_level: int, max_depth: int, link_params: bool) -> None:
        super().__init__()
        graph = FusionGraph(func)
        self._numbers = graph.numbers
        self._groups = FusionGroups(graph, opt_level, max_depth)
        self._signatures: dict[int, _Signature] = {}
        self._link_params = link_params
        self.memo_map.update((node, node) for node in post_order(func, stays) if stays(node))

    def visit_call(self, call: Call) -> Expr:
        """Return the call of a function for the root of a group."""
        op = call.op
        if not isinstance(op, Op) or op.get_attr("TNonComputational"):
            return super().visit_call(call)
        if op.name == "annotation.stop_fusion":
            return self.visit(call.args[0])
        group = self._group(call)
        args = self._arguments(call.args, group)
        new = Call(op, args, call.attrs, call.type_args, span=call.span)
        return self._function_call(group, call, new) if self._is_root(call) else new

    def visit_tuple(self, tup: Tuple) -> Expr:
        """Return a tuple; the root of a group is no part of a function."""
        if self._is_root(tup):
            return super().visit_tuple(tup)
        return Tuple(self._arguments(tup.fields, self._group(tup)), span=tup.span)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Return the call of a function for the root of a group that the tuple is in as well."""
        group = self._group(op)
        if self._is_root(op) and self._group(op.tuple_value) != group:
            return super().visit_tuple_getitem(op)
        (tup,) = self._arguments([op.tuple_value], group)
        new = TupleGetItem(tup, op.index, span=op.span)
        return self._function_call(group, op, new) if self._is_root(op) else new

    def _group(self, node: Expr) -> int:
        """Return the root of the group of a node, -1 if it is no result."""
        return self._groups.root(self._numbers[node]) if node in self._numbers else -1

    def _is_root(self, node: Expr) -> bool:
        return self._group(node) == self._numbers[node]

    def _arguments(self, args: Iterable[Expr], group: int) -> list[Expr]:
        """Return what stands within a group for what its results use: what is from outside becomes a parameter."""
        signature = self._signatures.setdefault(group, _Signature())
        made: list[Expr] = []
        for arg in args:
            new = self.visit(arg)
            is_inside = self._group(arg) == group or (self._link_params and isinstance(new, Constant))
            made.append(new if is_inside else signature.param(new, arg.checked_type))
        return made

    def _function_call(self, group: int, root: Expr, body: Expr) -> Call:
        params, body = _in_order(self._signatures.pop(group).params, body)
        func = Function(params.values(), body, root.checked_type, attrs=_attributes(body))
        return Call(func, params.keys(), span=root.span)


def _in_order(params: dict[Expr, Var], body: Expr) -> tuple[dict[Expr, Var], Expr]:
    """Return parameters in the order in which the body uses them, and the body with these.

    So are they in TVM, and arguments are evaluated in the order in which they were: some may write to a cell.
    """
    args = {param: arg for arg, param in params.items()}
    used = [node for node in post_order(body) if isinstance(node, Var)]
    if used == list(args):
        return params, body
    ordered = {param: Var(f"p{place}", param.type_annotation) for place, param in enumerate(used)}
    renaming = ExprMutator()
    renaming.memo_map.update(ordered.items())
    return {args[old]: new for old, new in ordered.items()}, renaming.visit(body)


def _attributes(body: Expr) -> dict[str, object]:
    """Return the attributes of the function of a body."""
    nodes = list(post_order(body))
    calls = [node for node in nodes if isinstance(node, Call)]
    takes_tensors = all(isinstance(node.type_annotation, TensorType) for node in nodes if isinstance(node, Var))
    reshapes_only = bool(calls) and takes_tensors and all(map(_is_reshape, calls))
    return {PRIMITIVE: int(bool(calls)), **({RESHAPE_ONLY: 1} if reshapes_only else {})}


def _is_reshape(call: Call) -> bool:
    return isinstance(call.op, Op) and bool(call.op.name in _RESHAPES or call.op.get_attr("TReshapeOp"))
