"""FuseOps: move operators that can be computed together into primitive functions.

The counterpart of TVM's `fuse_ops.cc`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from apass.core.config import provide_config_option
from apass.core.context import PassContext
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.analysis.fused import provide_fusion
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, Op, Tuple, TupleGetItem, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType, Type
from apass.relay.transform.function_pass import function_pass
from apass.relay.transform.fuse_ops.graph import PRIMITIVE, FusionGraph, stays
from apass.relay.transform.fuse_ops.groups import FusionGroups
from apass.relay.transform.simplify_inference import simplify_inference
from apass.relay.transform.support.reporting import remark_on_fusing
from apass.relay.type_inference.infer import ensure_typed
from apass.relay.visitors.expr_functor import ExprMutator, rewrite_function

__all__ = ["MAX_FUSED_OPS", "RESHAPE_ONLY", "FuseOps", "fuse_ops"]

RESHAPE_ONLY: Final = "relay.reshape_only"
"""Attribute of a primitive function that only changes shapes; 1."""
MAX_FUSED_OPS: Final = 256
"""Most results that one function computes, unless the context sets another limit."""

_MAX_DEPTH: Final = provide_config_option(
    "relay.FuseOps.max_depth", int, MAX_FUSED_OPS, "The most results that a function made by FuseOps computes."
)
_LINK_PARAMS: Final = provide_config_option(
    "relay.FuseOps.link_params", bool, False, "Whether FuseOps keeps constants in the functions that use them."
)

_RESHAPES: Final = frozenset({"contrib_reverse_reshape", "expand_dims", "nn.batch_flatten", "reshape", "squeeze"})


def fuse_ops(func: Function, opt_level: int = 2, max_depth: int = MAX_FUSED_OPS, link_params: bool = False) -> Function:
    """Return the function with all operator calls moved into primitive functions.

    The function must be typed. It then calls the primitive functions, which take their inputs as parameters `p0`, `p1`,
    ... Operators are fused as their `TOpPattern` allows, if intermediate results have no other users. Functions that
    are primitive already, or that have the attribute `Compiler`, stay as they are.

    Parameters:
        func: the function, typed.
        opt_level: at 0, each operator gets a function of its own.
        max_depth: the most results that one function computes.
        link_params: whether constants stay in the functions that use them; if not, all but simple scalars become
            parameters.

    """
    return rewrite_function(_FuseMutator(func, opt_level, max_depth, link_params), func)


@provide_pass("FuseOps")
def FuseOps(fuse_opt_level: int = -1) -> FunctionPass[IRModule, Function]:
    """Move operators that can be computed together into primitive functions.

    A `fuse_opt_level` of -1 means the level of the context. The config option `relay.FuseOps.max_depth` limits the
    number of results that one function computes.
    """

    def fuse(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        level = ctx.opt_level if fuse_opt_level == -1 else fuse_opt_level
        fused = fuse_ops(ensure_typed(func, mod), level, ctx.config[_MAX_DEPTH], ctx.config[_LINK_PARAMS])
        if ctx.wants_remarks:
            remark_on_fusing(ctx, fused)
        return fused

    return function_pass(fuse, opt_level=0, name="FuseOps", required=["InferType"])


@provide_fusion
def _fused_for_inference(mod: IRModule) -> IRModule:
    """Return the module after SimplifyInference and FuseOps(3), typed."""

    def fused(func: Function) -> Function:
        simplified = ensure_typed(simplify_inference(ensure_typed(func, mod)), mod)
        return ensure_typed(fuse_ops(simplified, opt_level=3), mod)

    return mod.with_functions({"main": fused(mod["main"])})


@dataclass(frozen=True, slots=True)
class _Signature:
    """The parameters of a new function, by the argument passed for each."""

    params: dict[Expr, Var] = field(default_factory=dict[Expr, Var])

    def param(self, arg: Expr, ty: Type) -> Var:
        """Return the parameter of an argument; a new parameter for a new argument."""
        if arg not in self.params:
            self.params[arg] = Var(f"p{len(self.params)}", ty)
        return self.params[arg]


class _FuseMutator(ExprMutator, scopes_first=True):
    """Builds the functions of the groups.

    For a node that is not the root of its group, the result is an expression over the parameters of the new function.
    """

    def __init__(self, func: Function, opt_level: int, max_depth: int, link_params: bool) -> None:
        super().__init__()
        graph = FusionGraph(func)
        self._numbers = graph.numbers
        self._groups = FusionGroups(graph, opt_level, max_depth)
        self._signatures: dict[int, _Signature] = {}
        self._inside = (GlobalVar, Constructor, *([Constant] if link_params else []))
        self.memo_map.update((node, node) for node in post_order(func, stays) if stays(node))

    def visit_call(self, call: Call) -> Expr:
        """Return the operator's call; for the root of a group, the call of its function."""
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
        """Return the tuple; if it is the root of its group, it stays outside of functions."""
        if self._is_root(tup):
            return super().visit_tuple(tup)
        return Tuple(self._arguments(tup.fields, self._group(tup)), span=tup.span)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        """Return the field, inside its group if the group contains the tuple.

        If it is the root of that group, return the call of the group's function.
        """
        group = self._group(op)
        if self._is_root(op) and self._group(op.tuple_value) != group:
            return super().visit_tuple_getitem(op)
        (tup,) = self._arguments([op.tuple_value], group)
        new = TupleGetItem(tup, op.index, span=op.span)
        return self._function_call(group, op, new) if self._is_root(op) else new

    def _group(self, node: Expr) -> int:
        """Return the root of the group of a node; -1 if the node is not a result."""
        return self._groups.root(self._numbers[node]) if node in self._numbers else -1

    def _is_root(self, node: Expr) -> bool:
        return self._group(node) == self._numbers[node]

    def _arguments(self, args: Iterable[Expr], group: int) -> list[Expr]:
        """Return the operands inside a group; operands from outside become parameters.

        The names of global functions and constructors are known inside.
        """
        signature = self._signatures.setdefault(group, _Signature())
        operands: list[Expr] = []
        for arg in args:
            new = self.visit(arg)
            is_inside = self._group(arg) == group or isinstance(new, self._inside)
            operands.append(new if is_inside else signature.param(new, arg.checked_type))
        return operands

    def _function_call(self, group: int, root: Expr, body: Expr) -> Call:
        params, body = _in_order(self._signatures.pop(group).params, body)
        func = Function(params.values(), body, root.checked_type, attrs=_attributes(body))
        return Call(func, params.keys(), span=root.span)


def _in_order(params: dict[Expr, Var], body: Expr) -> tuple[dict[Expr, Var], Expr]:
    """Renumber the parameters in the order in which the body uses them, as in TVM.

    Arguments are then evaluated in their original order, which matters if some write to a cell.
    """
    args = {param: arg for arg, param in params.items()}
    used = [node for node in post_order(body) if isinstance(node, Var)]
    if used == list(args):
        return params, body
    ordered = {param: Var(f"p{index}", param.type_annotation) for index, param in enumerate(used)}
    renaming = ExprMutator()
    renaming.memo_map.update(ordered.items())
    return {args[old]: new for old, new in ordered.items()}, renaming.visit(body)


def _attributes(body: Expr) -> dict[str, object]:
    """Return the attributes of a function with this body."""
    nodes = list(post_order(body))
    calls = [node for node in nodes if isinstance(node, Call)]
    takes_tensors = all(isinstance(node.type_annotation, TensorType) for node in nodes if isinstance(node, Var))
    reshapes_only = bool(calls) and takes_tensors and all(map(_is_reshape, calls))
    return {PRIMITIVE: int(bool(calls)), **({RESHAPE_ONLY: 1} if reshapes_only else {})}


def _is_reshape(call: Call) -> bool:
    return isinstance(call.op, Op) and bool(call.op.name in _RESHAPES or call.op.get_attr("TReshapeOp"))
